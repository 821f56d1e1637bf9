# frozen_string_literal: true

# How blocks of docs/guides/access-rights.md are run: see test/support/guides.rb.
no_authorizer = { not_run: "the embedded cluster has no authorizer; test/integration/access_rights.rb has one" }
{ "admin = Pelton.admin" => no_authorizer, "pattern: :prefixed" => no_authorizer }
