# frozen_string_literal: true

require "fileutils"
require_relative "broker"

# A real sshd on 127.0.0.1, for this user alone and with keys of its own. It logs in whoever has the key in its folder.
#   server = SshServer.new(folder)
#   child({}, server.command) # runs in the foreground
#   server.login              # => ["ssh", "-tt", …, "127.0.0.1"], to which a command may be added
class SshServer
  SSHD = "/usr/sbin/sshd" # it insists on its whole path
  HOST = "127.0.0.1"
  # For its process without rights.
  EMPTY = "/run/sshd"
  private_constant :SSHD, :HOST, :EMPTY

  # What is missing on this machine; nil: nothing is.
  def self.missing
    "openssh-server and openssh-client" unless File.executable?(SSHD) && system("command -v ssh >/dev/null")
  end

  def initialize(folder)
    @folder = folder
    @port = TestBroker.free_port
    %w[host login].each { |name| make_key(file(name)) }
    FileUtils.mkdir_p(EMPTY) if Process.uid.zero?
    File.write(file("config"), <<~TEXT)
      Port #{@port}
      ListenAddress #{HOST}
      HostKey #{file("host")}
      AuthorizedKeysFile #{file("login.pub")}
      AuthenticationMethods publickey
      StrictModes no
      UsePAM no
      PidFile none
    TEXT
  end

  def command = [SSHD, "-D", "-e", "-f", file("config")]

  # With a terminal. It asks nothing.
  def login
    options = { BatchMode: "yes", IdentitiesOnly: "yes", LogLevel: "ERROR", StrictHostKeyChecking: "no",
                UserKnownHostsFile: "/dev/null" }
    ["ssh", "-tt", "-F", "/dev/null", "-i", file("login"), "-p", @port.to_s,
     *options.flat_map { |name, value| ["-o", "#{name}=#{value}"] }, HOST]
  end

  private

  def file(name) = File.join(@folder, name)

  def make_key(path)
    system("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path) or raise "ssh-keygen made no key"
  end
end
