# frozen_string_literal: true

# How blocks of docs/guides/delivery-and-errors.md are run: see test/support/guides.rb.
{
  # The call returns before the new producer knows the partitions, also on a busy machine.
  "puts producer.flush\nputs producer.failures" => { before: -> { @cluster.slow(1) } },
  "config.on_reload" => {
    after: lambda do
      options = Pelton.config.on_reload.call({ "transactional.id" => "a" }, Pelton::Testing.error(:_FENCED))
      assert_equal({ "transactional.id" => "a-2" }, options)
    end
  }
}
