# frozen_string_literal: true

require "json"
require "net/http"
require "tmpdir"
require_relative "broker"
require_relative "java_cache"
require_relative "owned_process"

# A real schema registry, Apicurio, whose Confluent API Pelton's client talks to. It keeps schemas in memory.
#   registry = TestRegistry.start      # any free port; ends when this process does, however it ends
#   registry.url                       # => "http://127.0.0.1:23456/apis/ccompat/v7"
#   registry.kill(:STOP)               # it accepts connections and answers none
#   registry.restart                   # the same port, no schemas
#   registry.stop
# Maven fetches it the first time, from test/registry/pom.xml. Raises TestRegistry::Failure with a sentence to read.
class TestRegistry
  Failure = OwnedProcess::Failure
  class PortInUse < Failure; end

  POM = File.expand_path("../registry/pom.xml", __dir__)
  VERSION = File.read(POM)[%r{<registry\.version>(.+?)</registry\.version>}, 1]
  CACHE = JavaCache.new("apicurio-#{VERSION}", "Apicurio #{VERSION}")
  OPTIONS = [*JavaCache::JVM, "-Xmx300m", *JavaCache::QUICK, "-Dquarkus.http.host=#{TestBroker::HOST}"].freeze
  private_constant :CACHE, :OPTIONS

  class << self
    # owner: the process whose end ends the registry, too.
    #: (?owner: Integer) -> TestRegistry
    def start(owner: Process.pid)
      CACHE.prepare { CACHE.fetch(CACHE.path("app"), POM, "dependency:unpack-dependencies") }
      attempt = 0
      begin
        new(TestBroker.free_port).start(owner)
      rescue PortInUse # another process was faster
        raise if (attempt += 1) == TestBroker::ATTEMPTS

        retry
      end
    end
  end

  attr_reader :port

  def initialize(port)
    @port = port
    folder = File.join(Dir.tmpdir, "pelton-registry-#{port}")
    @process = OwnedProcess.new(folder, "-Dpelton.registry=#{folder}")
  end

  #: () -> String
  def url = "http://#{TestBroker::HOST}:#{port}/apis/ccompat/v7"

  #: () -> Integer?
  def pid = @process.pid

  #: () -> String
  def log = @process.log

  #: () -> bool
  def alive? = @process.alive?

  # Sends a signal: :KILL ends it at once, :STOP freezes it, :CONT thaws it.
  #: (Symbol) -> void
  def kill(signal) = @process.kill(signal)

  # Sets the compatibility mode of a subject. Without one, Apicurio accepts any schema.
  #   registry.mode("orders-value", "BACKWARD")
  #: (String, String) -> void
  def mode(subject, mode)
    place = URI("#{url}/config/#{URI.encode_www_form_component(subject).gsub("+", "%20")}")
    answer = Net::HTTP.new(place.host, place.port).put(place.path, JSON.generate(compatibility: mode),
                                                       "Content-Type" => "application/vnd.schemaregistry.v1+json")
    raise Failure, "#{subject} has no mode #{mode}: #{answer.body}" unless answer.code == "200"
  end

  # Ends it if it runs, and starts it again without its schemas.
  #: () -> TestRegistry
  def restart
    terminate
    launch
    self
  end

  # Does nothing the second time.
  #: () -> void
  def stop
    terminate
    @process.remove
  end

  # Used by TestRegistry.start.
  def start(owner)
    Dir.mkdir(@process.folder)
    @process.watch(owner)
    launch
    self
  rescue Errno::EEXIST
    raise PortInUse, "port #{port}: another process starts a registry there"
  rescue Failure
    stop
    raise
  end

  private

  def launch
    jar = CACHE.path("app/apicurio-registry-app-#{VERSION}-runner.jar")
    @process.start(CACHE.java, @process.mark, *OPTIONS, *CACHE.class_options(port), "-Dquarkus.http.port=#{port}",
                   "-jar", jar)
    return if @process.within(TestBroker::START_TIMEOUT) { serves? || !alive? } && alive?

    raise PortInUse, "port #{port} is in use" if log.include?("seems to be in use")

    raise Failure, "the registry on port #{port} does not start:\n#{log.lines.last(15).join}"
  end

  def serves?
    Net::HTTP.get_response(URI("#{url}/subjects")).code == "200"
  rescue SystemCallError, IOError, Timeout::Error
    false
  end

  def terminate
    CACHE.keep_classes(port) if @process.terminate
  end
end
