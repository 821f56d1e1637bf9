# frozen_string_literal: true

require "fileutils"
require "open3"

# Which librdkafka the extension is linked with, and how cargo is told so. extconf.rb and bin/setup ask it.
#
#   PELTON_LIBRDKAFKA   bundled (the default), system (by pkg-config), or a folder with librdkafka's sources
#   PELTON_FEATURES     what else is built into it, for example "gssapi,oidc"
class Librdkafka
  ROOT = File.expand_path("../..", __dir__)
  # The bundled version, e.g. "2.12.1". What Pelton does was tried with no older one.
  OLDEST = File.read(File.join(ROOT, "Cargo.lock"))[/^name = "rdkafka-sys"\nversion = ".+\+(.+)"$/, 1]
  # Cargo features, each with the library of this machine that it is linked with: pkg-config's name, Debian's package.
  FEATURES = { "gssapi" => %w[libsasl2 libsasl2-dev], "oidc" => %w[libcurl libcurl4-openssl-dev] }.freeze

  def initialize(environment = ENV)
    @choice = environment["PELTON_LIBRDKAFKA"].to_s
    @choice = "bundled" if @choice.empty?
    @list = environment["PELTON_FEATURES"].to_s
    @features = @list.split(",").map(&:strip).uniq.sort
  end

  def bundled? = @choice == "bundled"
  def system? = @choice == "system"

  # What is wrong with the two variables, or missing on this machine: a sentence each.
  def problems
    library = if system? then system_problem
              elsif !bundled? then sources_problem
              end
    [*library, *features_problems]
  end

  # Tells choices apart: "" for the default one, otherwise for example "2.15.1-oidc".
  def name
    version = if bundled? then @features.any? ? OLDEST : ""
              else system? ? @choice : sources_version
              end
    [version, *@features].reject(&:empty?).join("-")
  end

  # For `cargo build`. With a folder of sources, makes a copy of the crate that compiles librdkafka, below `folder`.
  def arguments(folder)
    return %w[--no-default-features --features system] if system?

    [*(["--features", @features.join(",")] if @features.any?),
     *(["--config", "paths=[#{crate(folder).inspect}]"] unless bundled?)]
  end

  private

  def system_problem
    version = pkg_config("--modversion", "rdkafka")
    if version.nil?
      "PELTON_LIBRDKAFKA=system: pkg-config finds no rdkafka. Install pkg-config and librdkafka #{OLDEST} or newer " \
        "with its headers (Debian 12 and 13 have an older one). Or unset PELTON_LIBRDKAFKA."
    elsif older?(version)
      "PELTON_LIBRDKAFKA=system: this machine has librdkafka #{version}, and Pelton needs #{OLDEST} or newer. Unset " \
        "PELTON_LIBRDKAFKA for the bundled one, or name a folder with newer sources."
    end
  end

  def sources_problem
    choice = "PELTON_LIBRDKAFKA=#{@choice.inspect}"
    if !File.directory?(@choice)
      "#{choice}: there is no such folder. It is bundled, system, or a folder with librdkafka's sources."
    elsif !%w[configure LICENSE src/rdkafka.h].all? { |name| File.file?(File.join(@choice, name)) }
      "#{choice}: this folder has no sources of librdkafka (configure, LICENSE, src/rdkafka.h)."
    elsif older?(sources_version)
      "#{choice}: this is librdkafka #{sources_version}, and Pelton needs #{OLDEST} or newer."
    end
  end

  def features_problems
    if system? && @features.any?
      return ["PELTON_FEATURES=#{@list.inspect}: the system's librdkafka has what it was built with. Unset one of " \
              "PELTON_FEATURES and PELTON_LIBRDKAFKA."]
    end

    @features.filter_map do |feature|
      library, package = FEATURES[feature]
      if library.nil?
        "PELTON_FEATURES=#{@list.inspect}: there is no #{feature.inspect}, only #{FEATURES.keys.join(" and ")}."
      elsif pkg_config("--modversion", library).nil?
        "PELTON_FEATURES=#{@list.inspect}: pkg-config finds no #{library} " \
          "(Debian: apt-get install pkg-config #{package})."
      end
    end
  end

  # #define RD_KAFKA_VERSION 0x020f01ff is "2.15.1".
  def sources_version
    header = File.read(File.join(@choice, "src/rdkafka.h"), encoding: "UTF-8")
    header[/^#define RD_KAFKA_VERSION +0x(\h{6})/, 1].to_s.scan(/../).map(&:hex).join(".")
  end

  def older?(version) = Gem::Version.new(version) < Gem::Version.new(OLDEST)

  # What it prints; nil if it fails.
  def pkg_config(*arguments)
    output, status = Open3.capture2("pkg-config", *arguments, err: File::NULL)
    output.strip if status.success?
  rescue Errno::ENOENT
    nil
  end

  # rdkafka-sys with these sources in the place of its own. Cargo compiles a crate of another path anew, so changed
  # sources get another folder.
  def crate(folder)
    sources = File.realpath(@choice)
    original = original_crate
    copy = File.join(File.expand_path(folder), "rdkafka-sys-#{digest(sources)}")
    FileUtils.mkdir_p(copy)
    FileUtils.cp_r(%w[Cargo.toml build.rs src].map { |name| File.join(original, name) }, copy)
    link = File.join(copy, "librdkafka")
    File.symlink(sources, link) unless File.symlink?(link)
    copy
  end

  def digest(sources)
    require "digest"
    state = Dir.glob("{configure*,mklove/**/*,src/**/*.{c,h}}", base: sources).sort.map do |file|
      stat = File.stat(File.join(sources, file))
      [file, stat.size, stat.mtime.to_f]
    end
    Digest::SHA256.hexdigest([sources, state].inspect)[0, 12]
  end

  def original_crate
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", "#{ROOT}/Cargo.toml"]
    output, errors, status = Open3.capture3(*command)
    abort "#{command.join(" ")}: #{errors}" unless status.success?

    require "json"
    package = JSON.parse(output)["packages"].find { |one| one["name"] == "rdkafka-sys" }
    File.dirname(package["manifest_path"])
  end
end

# For bin/setup: prints the name, and with a folder the arguments, a line each.
if $PROGRAM_NAME == __FILE__
  librdkafka = Librdkafka.new
  abort librdkafka.problems.join("\n") if librdkafka.problems.any?
  puts(ARGV.empty? ? librdkafka.name : librdkafka.arguments(ARGV.first))
end
