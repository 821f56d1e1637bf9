# frozen_string_literal: true

# How blocks of docs/guides/parallel-decoding.md are run: see test/support/guides.rb.
{
  "RactorPool" => {
    raises: RACTORS ? nil : Pelton::ConfigError,
    after: -> { assert_empty %i[map dispatch] - Pelton::RactorPool.public_instance_methods }
  }
}
