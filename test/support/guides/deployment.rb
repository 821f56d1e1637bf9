# frozen_string_literal: true

{
  "group.instance.id" => {
    before: -> { ENV["POD_NAME"] = "billing-0" }, # a pod's name
    after: lambda do
      assert_equal "billing-0", Pelton.config.kafka["group.instance.id"]
      assert Pelton.config.kafka["bootstrap.servers"]
      ENV.delete("POD_NAME") # of a web process or a command
      define(Guides.find("docs/guides/deployment.md", "group.instance.id").code)
      refute Pelton.config.kafka.key?("group.instance.id")
    end
  }
}
