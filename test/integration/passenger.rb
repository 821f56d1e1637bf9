# frozen_string_literal: true

# once: Debian's Passenger runs Debian's Ruby

require "net/http"
require "tmpdir"
require "support/scenario"

# Passenger loads an application once, in a process that forks the others ("smart spawning"). Nothing is configured for
# that: the parent produces before the fork, the children answer requests that produce, and all of it arrives once when
# Passenger stops. A linger of a minute means that only the end of the processes can have sent them.

Scenario.needs(("no program passenger" unless system("which", "passenger", out: File::NULL)))

Scenario.run do
  name = topic(partitions: 1)
  folder = Dir.mktmpdir("pelton-passenger")
  at_exit { FileUtils.rm_rf(folder) }
  File.write("#{folder}/config.ru", <<~RUBY)
    $LOAD_PATH.unshift(#{File.expand_path("../../lib", __dir__).inspect})
    require "pelton"
    Pelton.configure { |config| config.kafka = { "bootstrap.servers" => #{bootstrap.inspect}, "linger.ms" => 60_000 } }
    send = ->(payload) { Pelton.producer.produce_async(topic: #{name.inspect}, payload: payload) }
    send.("boot")
    run lambda { |env|
      send.(env["PATH_INFO"]) unless env["PATH_INFO"] == "/" # Passenger asks for it when it starts
      [200, { "Content-Type" => "text/plain" }, [Process.pid.to_s]]
    }
  RUBY
  port = TestBroker.free_port
  quiet = %w[--no-compile-runtime --no-install-runtime --disable-security-update-check --disable-anonymous-telemetry]
  server = child({ "RUBYOPT" => nil }, ["passenger", "start", folder, "--engine", "builtin", *quiet, "-p", port.to_s,
                                        "--address", "127.0.0.1", "--min-instances", "2", "--environment", "production",
                                        "--spawn-method", "smart", "--pid-file", "#{folder}/pid"])
  get = lambda do |path|
    Net::HTTP.get_response("127.0.0.1", path, port)
  rescue SystemCallError, EOFError
    nil
  end
  eventually(60, -> { "Passenger\n#{server.output}" }) { get.("/")&.code == "200" }
  paths = Array.new(20) { |index| "/request-#{index}" }
  answers = paths.map { |path| get.(path) }
  equal(["200"], answers.map(&:code).uniq, "answers\n#{server.output}")
  server.kill(:TERM)
  exit_code(server, 60)
  payloads = read(name, 1, 21).map { |_, message| message.raw_payload }
  equal(["boot", *paths].sort, payloads.sort, "messages of the parent and of its children, each once")
end
