# frozen_string_literal: true

{
  "sasl.oauthbearer.method" => {
    before: -> { ENV["OIDC_SECRET"] = "hush" },
    after: lambda do
      options = Pelton.config.kafka.slice("sasl.oauthbearer.method", "sasl.oauthbearer.client.secret")
      assert_equal %w[oidc hush], options.values
    end
  }
}
