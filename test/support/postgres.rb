# frozen_string_literal: true

require "fileutils"
require "tmpdir"
require_relative "broker"

# A PostgreSQL server of its own, in a temporary folder, which ends with the process. Needs Debian's postgresql and
# ruby-pg. PostgreSQL does not run as root; then it runs as the user postgres.
class PostgresServer
  BIN = Dir.glob("/usr/lib/postgresql/*/bin").max_by { |path| path[/\d+/].to_i }
  USER = "postgres"

  # Why this machine or this Ruby cannot use one; nil: it can.
  #: () -> String?
  def self.missing
    return "no PostgreSQL on this machine" unless BIN

    found = %w[pg activerecord].reject { |name| Gem::Specification.find_all_by_name(name).any? }
    "no gem #{found.join(", ")} for Ruby #{RUBY_VERSION}" unless found.empty?
  end

  attr_reader :url

  def initialize
    @folder = Dir.mktmpdir("pelton-postgres")
    FileUtils.chown(USER, nil, @folder) if Process.uid.zero?
    @owner = Process.pid
    @data = File.join(@folder, "data")
    port = TestBroker.free_port
    run("initdb", "-D", @data, "-U", USER, "-A", "trust", "-N")
    run("pg_ctl", "-D", @data, "-w", "-l", File.join(@folder, "log"), "-o",
        "-p #{port} -h 127.0.0.1 -k #{@folder} -F", "start")
    @server = "postgresql://#{USER}@127.0.0.1:#{port}"
    @url = "#{@server}/postgres"
    at_exit { stop if Process.pid == @owner }
  end

  # Makes a database and returns its URL.
  #: (String) -> String
  def database(name)
    run("psql", "-q", "-d", @url, "-c", "CREATE DATABASE #{name}")
    "#{@server}/#{name}"
  end

  def stop
    return unless @data

    run("pg_ctl", "-D", @data, "-m", "immediate", "-w", "stop")
    @data = nil
    FileUtils.rm_rf(@folder)
  end

  private

  def run(program, *arguments)
    become = Process.uid.zero? ? ["setpriv", "--reuid=#{USER}", "--regid=#{USER}", "--init-groups"] : []
    log = File.join(Dir.tmpdir, "pelton-postgres-#{@owner}.log")
    done = system(*become, File.join(BIN, program), *arguments, chdir: "/", in: File::NULL, out: log, err: log)
    raise "#{program} failed:\n#{File.read(log)}" unless done
  ensure
    FileUtils.rm_f(log)
  end
end
