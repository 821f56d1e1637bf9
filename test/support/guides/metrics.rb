# frozen_string_literal: true

{
  "METRICS = " => { not_run: "the routes of a Rails app; test/unit/metrics_test.rb calls the Rack app" }
}
