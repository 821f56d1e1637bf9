# frozen_string_literal: true

require_relative "rust_functions"

module Mutants
  # Changes of the Rust core that are compiled together. Each has a number, and the variable PELTON_CHANGE picks one
  # when a test starts. So a change costs only the run of its tests. A function gets one body for each of its changes:
  #   fn is_full(&self) -> bool { match crate::changes::number() { 7 => { self.len > 3 } _ => { self.len >= 3 } } }
  class RustSwitches
    VARIABLE = "PELTON_CHANGE"
    CORE = "ext/core/src"
    NUMBER = <<~RUST.freeze
      //! The change that this process tries.
      use std::sync::OnceLock;

      pub fn number() -> u32 {
          static NUMBER: OnceLock<u32> = OnceLock::new();
          *NUMBER.get_or_init(|| std::env::var("#{VARIABLE}").map_or(0, |text| text.parse().expect("a number")))
      }
    RUST

    # root: the tree; sites: {7 => Site}, of files in ext/core/src.
    #: (String, Hash[Integer, Site]) -> void
    def initialize(root, sites)
      @root = root
      @sites = sites.dup
      @texts = sites.values.map(&:path).uniq.to_h { |path| [path, File.read(File.join(root, path))] }
      @bodies = @texts.transform_values { |text| RustFunctions.new(text).bodies }
      # {path => [[7, 120..131], …]}: the lines of each change's body, and of its function (number: an Array of all).
      @lines = {}
      @sites.select! { |_, site| body_of(site) }
    end

    # The numbers of the changes that are compiled in. Others stand outside of functions, or did not compile.
    #: () -> Array[Integer]
    def numbers = @sites.keys

    # Writes the files of the tree.
    #: () -> self
    def write
      File.write(File.join(@root, CORE, "changes.rs"), NUMBER)
      library = File.join(@root, CORE, "lib.rs")
      text = File.read(library)
      File.write(library, text.sub(/^pub mod /, "pub mod changes;\npub mod ")) unless text.include?("mod changes;")
      @texts.each { |path, original| File.write(File.join(@root, path), with_switches(path, original)) }
      self
    end

    # Takes out the changes at these lines of files: [["ext/core/src/chunk.rs", 12], …]. Returns their numbers.
    #: (Array[[String, Integer]]) -> Array[Integer]
    def drop(places)
      numbers = places.flat_map { |path, line| numbers_at(path, line) }.uniq
      numbers.each { |number| @sites.delete(number) }
    end

    private

    def body_of(site) = @bodies[site.path].find { |body| body.include?(site.before) }

    # Those of a single change's body, or else of the whole function: its bodies may not fit together.
    def numbers_at(path, line)
      found = @lines.fetch(path, []).select { |_, lines| lines.cover?(line) }.map(&:first)
      found.find { |number| number.is_a?(Integer) } || found.flatten
    end

    def with_switches(path, original)
      @lines[path] = []
      sites = @sites.select { |_, site| site.path == path }
      result = +""
      position = 0
      @bodies[path].each do |body|
        inside = sites.select { |_, site| body.include?(site.before) }
        next if inside.empty?

        result << original.byteslice(position...body.opening)
        add_switch(result, original, body, inside, @lines[path])
        position = body.closing + 1
      end
      result << original.byteslice(position..)
    end

    def add_switch(result, original, body, sites, lines)
      begins = result.count("\n") + 1
      result << "{\nmatch crate::changes::number() {\n"
      sites.each do |number, site|
        first = result.count("\n") + 1
        growth = site.new.bytesize - site.old.bytesize
        result << "#{number} => #{site.apply(original).byteslice(body.opening..(body.closing + growth))}\n"
        lines << [number, first..result.count("\n")]
      end
      result << "_ => #{original.byteslice(body.opening..body.closing)}\n}\n}"
      lines << [sites.keys, begins..(result.count("\n") + 1)]
    end
  end
end
