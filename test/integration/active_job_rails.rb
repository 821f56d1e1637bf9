# frozen_string_literal: true

require "open3"
require "support/scenario"
require "support/rails_app"

# Rails' own tests of Active Job, with :pelton as the adapter: those of adapters on a real Kafka, and all others, for
# which jobs are performed where they are enqueued. They come from Debian's source package of Rails.

Scenario.needs(RailsApp.missing)

VERSION = Gem::Specification.find_by_name("activejob").version.segments.first(2).join(".")
SOURCE, FETCHED = Open3.capture2(File.join(Scenario::ROOT, ".ci/rails_source"), VERSION)
Scenario.needs(("no source of Rails #{VERSION}" unless FETCHED.success?))

# The tests that skip themselves with another adapter than theirs, and why. Rails 7.2 does not define them then.
EXCEPTIONS = {
  "should_supply_a_wrapped_class_name_to_Sidekiq" => "about Sidekiq's wrapper of jobs",
  "should_access_provider_job_id_inside_Sidekiq_job" => "about Sidekiq's own id; the test of all adapters runs",
  "should_supply_a_wrapped_class_name_to_DelayedJob" => "about Delayed Job's wrapper of jobs",
  "resque_JobWrapper_should_have_instance_variable_queue" => "about Resque's wrapper of jobs",
  "should_run_job_with_higher_priority_first" => "Kafka has no priorities: a topic is read in its order",
  "should_run_job_with_higher_priority_first_in_Backburner" => "the same, for Backburner"
}.freeze

OURS = File.join(Scenario::ROOT, "test/support/active_job")

# A copy of the tests, with the files of this adapter.
class RailsTests
  def initialize(source)
    @folder = Dir.mktmpdir("pelton-rails-tests")
    at_exit { FileUtils.rm_rf(@folder) }
    { "activejob" => "test", "tools" => "test_common.rb" }.each do |folder, name|
      FileUtils.mkdir_p(File.join(@folder, folder))
      FileUtils.cp_r(File.join(source, folder, name), File.join(@folder, folder))
    end
    @tests = File.join(@folder, "activejob/test")
    { "inline.rb" => "adapters/pelton.rb", "jobs_manager.rb" => "support/integration/adapters/pelton.rb" }
      .each { |ours, theirs| FileUtils.cp(File.join(OURS, ours), File.join(@tests, theirs)) }
    # These are about other adapters: the gem of one is not here, the other one would have to be chosen.
    FileUtils.rm_f(%w[delayed_job async].map { |name| File.join(@tests, "cases/#{name}_adapter_test.rb") })
    # A test of Rails 7.2 that lists the adapters that there are.
    if VERSION == "7.2"
      edit("cases/test_case_test.rb", "when :test\n",
           "when :pelton\n                 ActiveJob::QueueAdapters::PeltonAdapter\n               \\0")
    end
    # For an adapter that the tests name.
    File.write(File.join(@tests, "sneakers.rb"), <<~RUBY)
      module Sneakers
        module Worker
          def self.included(worker) = worker.define_singleton_method(:from_queue) { |*| nil }
        end
      end
    RUBY
    # This adapter sets provider_job_id, too.
    gems = [*RailsApp::GEMS.map { |gem| "gem #{gem.inspect}" }, "gem \"pelton\", path: #{Scenario::ROOT.inspect}"]
    File.write(File.join(@folder, "Gemfile"), gems.join("\n"))
    edit("support/integration/helper.rb", "\"--skip-git\",", "*#{RailsApp::WITHOUT},")
    edit("integration/queuing_test.rb", ":async, :delayed_job, :sidekiq,", ":pelton, \\0")
    # A busy machine needs longer until a job runs, and until it was enqueued.
    edit("integration/queuing_test.rb", /(?<=finish_for\()\d+(?=\.seconds\)\n\s+assert[ _]job_executed)/, "120")
    edit("integration/queuing_test.rb", /(?<!HelloJob)\.set\(wait: \K5(?=\.seconds)/, "10")
  end

  # The environment and command that run these files.
  def command(pattern, **env)
    [{ "AJ_ADAPTER" => "pelton", "BUNDLE_GEMFILE" => File.join(@folder, "Gemfile"), **env.transform_keys(&:to_s) },
     ["sh", "-c", 'cd "$0" && exec "$@"', File.dirname(@tests), # some tests need this folder
      RbConfig.ruby, "-W0", "-rbundler/setup", "-I#{@tests}", "-e", "ARGV.grep_v(/^-/).each { |file| require file }",
      *Dir.glob(File.join(@tests, pattern)), "--verbose"]]
  end

  private

  def edit(file, from, to)
    path = File.join(@tests, file)
    text = File.read(path)
    text.gsub!(from, to) || raise("#{file} has no #{from}")
    File.write(path, text)
  end
end

Scenario.run do
  tests = RailsTests.new(SOURCE.lines.last.strip)
  prefix = "#{unique("rails")}."
  %w[integration_tests some_other_queue].each { |queue| topic(name: prefix + queue) } # the latter has no route
  topic(name: "#{prefix}schedule", settings: { "cleanup.policy" => "compact" })
  runs = [tests.command("integration/**/*_test.rb", AJ_INTEGRATION_TESTS: "1", PELTON_BOOTSTRAP: bootstrap,
                                                    PELTON_PREFIX: prefix),
          tests.command("cases/**/*_test.rb")].map { |run| child(*run) }
  runs.zip([8, 200]) do |run, least|
    code = exit_code(run, 120)
    summary = run.output[/^(\d+) runs, .*$/].to_s
    puts summary
    equal(0, code, "exit code of Rails' tests\n#{run.output}")
    check(summary.to_i >= least, "at least #{least} tests ran: #{summary}")
    skipped = run.output.scan(/#test_(\S+) = .* = S$/).flatten
    skipped.each { |name| puts "skipped: #{name}: #{EXCEPTIONS.fetch(name, "no reason is known")}" }
    equal([], skipped - EXCEPTIONS.keys, "skipped without a reason")
    equal(skipped.size, summary[/(\d+) skips/, 1].to_i, "names of skipped tests\n#{run.output}")
  end
end
