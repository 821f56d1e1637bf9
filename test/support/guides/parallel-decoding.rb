# frozen_string_literal: true

# How blocks of docs/guides/parallel-decoding.md are run: see test/support/guides.rb.
{
  "parallel: :auto" => {
    after: -> { assert_equal 7, serve({ "orders" => PAID }).first.payload.id }
  },
  "RactorPool" => {
    raises: RACTORS ? nil : Pelton::ConfigError,
    after: -> { assert_empty %i[map dispatch] - Pelton::RactorPool.public_instance_methods }
  }
}
