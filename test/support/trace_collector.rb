# frozen_string_literal: true

require "digest"
require "fileutils"
require "json"
require "open3"

# The OpenTelemetry collector's own receiver (test/collector), as a process that prints the traces that it accepted.
# Go builds it the first time, which takes a minute or two, into the cache folder of the test broker's jars.
class TraceCollector
  SOURCE = File.expand_path("../collector", __dir__)
  CACHE = File.join(ENV.fetch("XDG_CACHE_HOME") { File.join(Dir.home, ".cache") }, "pelton")

  class << self
    # What this machine lacks for it; nil: nothing.
    def missing
      wanted = File.read(File.join(SOURCE, "go.mod"))[/^go ([\d.]+)/, 1]
      output, = Open3.capture2e("go", "env", "GOVERSION")
      found = output[/\Ago([\d.]+)/, 1]
      "Go is #{found}, and the collector needs #{wanted}" if Gem::Version.new(found) < Gem::Version.new(wanted)
    rescue Errno::ENOENT
      "no go, which builds the collector"
    end

    # The program, built if it is missing.
    def program
      files = Dir.glob("#{SOURCE}/*")
      path = File.join(CACHE, "collector-#{Digest::SHA256.hexdigest(files.map { |file| File.read(file) }.join)[0, 12]}")
      FileUtils.mkdir_p(CACHE)
      File.open("#{CACHE}/collector.lock", File::CREAT | File::RDWR) do |lock|
        lock.flock(File::LOCK_EX)
        build(path) unless File.executable?(path)
      end
      path
    end

    private

    def build(path)
      settings = { "GOTOOLCHAIN" => "local", "GOFLAGS" => "-mod=readonly" }
      output, status = Open3.capture2e(settings, "nice", "go", "build", "-trimpath", "-ldflags=-s", "-o", "#{path}.new",
                                       ".", chdir: SOURCE)
      raise "go build: #{output}" unless status.success?

      File.rename("#{path}.new", path)
    end
  end

  # The address for a tracer, "http://127.0.0.1:43211".
  attr_reader :url

  def initialize
    @output = IO.popen([self.class.program])
    @url = @output.gets&.chomp or raise "the collector did not start"
    @spans = []
  end

  # Ends the receiver, and returns all spans that it accepted.
  def close
    Process.kill(:TERM, @output.pid)
    @output.each_line do |line|
      scopes = JSON.parse(line).fetch("resourceSpans").flat_map { |resource| resource.fetch("scopeSpans") }
      scopes.each { |scope| @spans.concat(scope.fetch("spans")) }
    end
    @output.close
    @spans
  end
end
