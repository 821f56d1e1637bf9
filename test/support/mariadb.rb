# frozen_string_literal: true

require "fileutils"
require "socket"
require "tmpdir"
require_relative "broker"

# A MariaDB server of its own, in a temporary folder, which ends with the process. Needs Debian's mariadb-server and
# ruby-mysql2.
class MariadbServer
  PROGRAMS = %w[/usr/sbin/mariadbd /usr/bin/mariadb-install-db].freeze
  USER = "mysql"

  # Why this machine or this Ruby cannot use one; nil: it can.
  #: () -> String?
  def self.missing
    return "no MariaDB on this machine" unless PROGRAMS.all? { |path| File.executable?(path) }

    found = %w[mysql2 activerecord].reject { |name| Gem::Specification.find_all_by_name(name).any? }
    "no gem #{found.join(", ")} for Ruby #{RUBY_VERSION}" unless found.empty?
  end

  # The URL of a database.
  attr_reader :url

  def initialize
    @folder = Dir.mktmpdir("pelton-mariadb")
    FileUtils.chown(USER, nil, @folder) if Process.uid.zero?
    @owner = Process.pid
    port = TestBroker.free_port
    user = Process.uid.zero? ? ["--user=#{USER}"] : []
    install(user)
    @pid = Process.spawn("/usr/sbin/mariadbd", "--no-defaults", *user, "--datadir=#{@folder}/data", "--port=#{port}",
                         "--bind-address=127.0.0.1", "--socket=#{@folder}/socket", "--skip-grant-tables",
                         "--skip-networking=0", out: File::NULL, err: "#{@folder}.log", chdir: "/")
    @url = "mysql2://root@127.0.0.1:#{port}/test"
    at_exit { stop if Process.pid == @owner }
    await(port)
  end

  def stop
    return unless @pid

    Process.kill(:KILL, @pid)
    Process.wait(@pid)
    @pid = nil
    FileUtils.rm_rf([@folder, "#{@folder}.log"])
  end

  private

  def await(port)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + (30 * Guard::PATIENCE)
    begin
      TCPSocket.open("127.0.0.1", port).close
    rescue Errno::ECONNREFUSED
      over = Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline || Process.wait(@pid, Process::WNOHANG)
      raise "MariaDB did not start:\n#{File.read("#{@folder}.log")}" if over

      IO.select(nil, nil, nil, 0.05)
      retry
    end
  end

  def install(user)
    log = "#{@folder}.log"
    done = system("/usr/bin/mariadb-install-db", "--no-defaults", *user, "--datadir=#{@folder}/data",
                  chdir: "/", in: File::NULL, out: log, err: log)
    raise "mariadb-install-db failed:\n#{File.read(log)}" unless done
  end
end
