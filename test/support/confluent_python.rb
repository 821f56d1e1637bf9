# frozen_string_literal: true

require "fileutils"
require "open3"

# Confluent's client for Python, which pip installs once, with what it needs, into the cache folder of the test broker's
# jars.
module ConfluentPython
  VERSION = "2.16.1"
  PACKAGE = "confluent-kafka[schemaregistry,avro]==#{VERSION}".freeze
  CACHE = File.join(ENV.fetch("XDG_CACHE_HOME") { File.join(Dir.home, ".cache") }, "pelton")
  FOLDER = File.join(CACHE, "confluent-kafka-#{VERSION}")
  PYTHON = "python3"

  class << self
    # What this machine lacks for it; nil: nothing.
    def missing
      _, status = Open3.capture2e(PYTHON, "-c", "import ensurepip, venv")
      "no python3 with venv (Debian: apt-get install python3-venv)" unless status.success?
    rescue Errno::ENOENT
      "no python3 (Debian: apt-get install python3-venv)"
    end

    # The Python that has the package, installed if it is missing.
    def python
      FileUtils.mkdir_p(CACHE)
      File.open("#{FOLDER}.lock", File::CREAT | File::RDWR) do |lock|
        lock.flock(File::LOCK_EX)
        install unless File.exist?("#{FOLDER}/complete")
      end
      "#{FOLDER}/bin/python"
    end

    private

    # A virtual environment cannot be moved, so a file says that it is complete.
    def install
      FileUtils.rm_rf(FOLDER)
      run(PYTHON, "-m", "venv", FOLDER)
      run("#{FOLDER}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
          "--only-binary", ":all:", PACKAGE)
      FileUtils.touch("#{FOLDER}/complete")
    end

    def run(*command)
      output, status = Open3.capture2e(*command)
      raise "#{command.join(" ")}: #{output}" unless status.success?
    end
  end
end
