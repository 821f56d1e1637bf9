# frozen_string_literal: true

require "fileutils"
require "socket"
require "tmpdir"
require_relative "broker"

# A Kerberos KDC (MIT's, from Debian's krb5-kdc) on a free port, with a realm of its own. This process, and those that
# it starts, find it by the environment. It needs no root.
#
#   kdc = Kdc.new
#   keytab = kdc.keytab("pelton") # a new principal's key: "/tmp/pelton-kdc…/pelton.keytab"
#   kdc.config                    # => "/tmp/pelton-kdc…/krb5.conf", for Java's java.security.krb5.conf
#   kdc.stop
class Kdc
  REALM = "PELTON.TEST"
  HOST = "127.0.0.1"
  PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

  class Failure < StandardError; end

  def initialize
    @folder = Dir.mktmpdir("pelton-kdc")
    @port = TestBroker.free_port
    write_configuration
    ENV.update("KRB5_CONFIG" => config, "KRB5_KDC_PROFILE" => path("kdc.conf"),
               "KRB5CCNAME" => "FILE:#{path("tickets")}")
    run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
    @pid = Process.spawn({ "PATH" => PATH }, "krb5kdc", "-n", out: path("log"), err: [:child, :out])
    wait_until_ready
  end

  def config = path("krb5.conf")

  # Adds a principal with a random key, and returns the path of a file with it.
  def keytab(principal)
    path("#{principal.tr("/", "-")}.keytab").tap do |file|
      run("kadmin.local", "-q", "addprinc -randkey #{principal}@#{REALM}")
      run("kadmin.local", "-q", "ktadd -k #{file} -norandkey #{principal}@#{REALM}")
      raise Failure, "no key of #{principal}" unless File.exist?(file)
    end
  end

  def stop
    Process.kill(:TERM, @pid)
    Process.wait(@pid)
    FileUtils.rm_rf(@folder)
  end

  private

  def path(name) = File.join(@folder, name)

  def write_configuration
    File.write(config, <<~CONF)
      [libdefaults]
        default_realm = #{REALM}
        dns_lookup_kdc = false
        dns_lookup_realm = false
        dns_canonicalize_hostname = false
        rdns = false
        udp_preference_limit = 1
      [realms]
        #{REALM} = {
          kdc = #{HOST}:#{@port}
        }
      [domain_realm]
        #{HOST} = #{REALM}
    CONF
    File.write(path("kdc.conf"), <<~CONF)
      [kdcdefaults]
        kdc_listen = #{HOST}:#{@port}
        kdc_tcp_listen = #{HOST}:#{@port}
      [realms]
        #{REALM} = {
          database_name = #{path("principal")}
          key_stash_file = #{path("stash")}
          acl_file = #{path("acl")}
        }
    CONF
  end

  def run(*command)
    output = IO.popen({ "PATH" => PATH }, [*command, { err: [:child, :out] }], &:read)
    raise Failure, "#{command.join(" ")}: #{output}" unless $?.success?
  end

  def wait_until_ready
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + (20 * Guard::PATIENCE)
    begin
      TCPSocket.open(HOST, @port).close
    rescue Errno::ECONNREFUSED
      late = Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      raise Failure, "krb5kdc did not start: #{File.read(path("log"))}" if late || Process.wait(@pid, Process::WNOHANG)

      IO.select(nil, nil, nil, 0.05)
      retry
    end
  end
end
