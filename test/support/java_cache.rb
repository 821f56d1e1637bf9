# frozen_string_literal: true

require "fileutils"

# A program for the JVM that Maven fetches once, in a cache folder of its own, and its classes as Java had them in
# memory.
#   cache = JavaCache.new("kafka-4.1.0", "Kafka 4.1.0")
#   cache.prepare { cache.fetch(cache.path("libs"), POM, "dependency:copy-dependencies") }
class JavaCache
  class Failure < StandardError; end

  JVM = %w[-Djava.awt.headless=true -XX:-UsePerfData].freeze
  # Quick to start.
  QUICK = %w[-XX:+UseSerialGC -XX:TieredStopAtLevel=1].freeze

  # folder: in the cache. title: for errors.
  def initialize(folder, title)
    @folder = folder
    @title = title
  end

  def folder = File.join(ENV["XDG_CACHE_HOME"] || File.join(Dir.home, ".cache"), "pelton", @folder)
  def path(name) = File.join(folder, name)

  # The command of Java.
  #: () -> String
  def java
    home = ENV["JAVA_HOME"].to_s
    home.empty? ? "java" : File.join(home, "bin", "java")
  end

  # Runs the block, which fills what is missing. If two processes call it at the same time, the second one waits.
  #: () { () -> void } -> void
  def prepare
    FileUtils.mkdir_p(folder)
    File.open(path("lock"), File::CREAT | File::RDWR) do |lock|
      lock.flock(File::LOCK_EX)
      check_java
      yield
    end
  end

  # Fills a folder, unless it exists. An interrupted run leaves no half-filled folder behind.
  #: (String) { (String) -> void } -> void
  def fill(target)
    return if File.directory?(target)

    folder = "#{target}.part"
    FileUtils.rm_rf(folder)
    FileUtils.mkdir_p(folder)
    yield folder
    File.rename(folder, target)
  end

  # Fills a folder with what Maven's goal puts there.
  #: (String, String, String) -> void
  def fetch(target, pom, goal)
    fill(target) do |folder|
      run("Maven cannot fetch #{@title}", "mvn", "-q", "-B", "-f", pom, goal, "-DincludeScope=runtime",
          "-DoutputDirectory=#{folder}")
    rescue Errno::ENOENT
      raise Failure, "Maven is missing: mvn not found (bin/setup installs it)"
    end
  end

  # Runs a command, and raises Failure with its output if it fails.
  #: (String, *String) -> void
  def run(failure, *command)
    output = IO.popen([*command, { err: [:child, :out] }], &:read)
    raise Failure, "#{failure}:\n#{output}" unless $?.success?
  end

  # Options for the JVM of the server on this port. Loading classes is half of its start. So the first server that ends
  # when asked to writes them to a file as it has them in memory, and later ones map that file.
  #: (Integer) -> Array[String]
  def class_options(port)
    option = File.exist?(classes) ? "SharedArchiveFile=#{classes}" : "ArchiveClassesAtExit=#{written_classes(port)}"
    ["-XX:#{option}", "-Xlog:cds*=off"] # another Java ignores the file
  end

  # The server on this port has ended: keeps the file, if it wrote one.
  #: (Integer) -> void
  def keep_classes(port)
    File.rename(written_classes(port), classes)
  rescue Errno::ENOENT
    nil
  end

  private

  def classes = path("classes.jsa")
  def written_classes(port) = path("classes-#{port}.part")

  def check_java
    text = IO.popen([java, "-version", { err: [:child, :out] }], &:read)
    major = text[/version "(\d+)/, 1].to_i
    raise Failure, "#{@title} needs Java 17 or newer, #{java} says: #{text.lines.first}" if major < 17
  rescue Errno::ENOENT
    raise Failure, "Java is missing: #{java} not found (bin/setup installs it)"
  end
end
