# frozen_string_literal: true

require "json"
require_relative "../errors"
require_relative "names"
require_relative "schema"

module Pelton
  class Registry
    # Schemas from a folder, for tests, for scripts, and for topics without a registry. A file is named after its id,
    # its subject, or both: `7.avsc`, `orders-value.avsc`, `orders-value.7.avsc`. Schemas may use types of other files.
    # All files are read once, with the first look-up. A look-up of a file without a valid schema raises an error.
    class Files
      # error: the RegistryError of a file without a valid schema.
      Found = Struct.new(:path, :subject, :id, :text, :json, :names, :schema, :error)
      private_constant :Found

      #: (String) -> void
      def initialize(folder)
        @folder = File.expand_path(folder)
        raise ConfigError.new("registry files", folder, "is not a folder") unless File.directory?(@folder)

        @lock = Mutex.new
        # [Found, …], after the first look-up.
        @files = nil
      end

      #: (Integer) -> Schema
      def schema(id) = schema_of("schema #{id}", files.find { |file| file.id == id })

      #: (Integer) -> Schema
      def fingerprint(number)
        schema_of("fingerprint #{number.to_s(16)}", files.find { |file| file.schema&.fingerprint == number })
      end

      #: (String) -> bot
      def guid(text) = schema_of("GUID #{text}", nil)

      # A subject's versions are its files in the order of their ids. If there is only one file, any number finds it.
      #: (String, Integer | String) -> Schema
      def version(subject, number)
        versions = versions(subject)
        latest = versions.size == 1 || number == "latest"
        schema_of("subject #{subject}", latest ? versions.last : versions[[number.to_i, 1].max - 1])
      end

      #: (String, Schema) -> Integer
      def id_of(subject, schema)
        found = same(subject, schema)
        latest = version(subject, "latest")
        (found.include?(latest) ? latest : found.last).id ||
          raise(RegistryError.new("subject #{subject}", "its file name has no id: rename it to #{subject}.<id>.avsc"))
      end

      # In the order of the files' ids.
      #: (String, Schema) -> Integer
      def version_of(subject, schema) = versions(subject).map(&:schema).index(same(subject, schema).last) + 1

      #: (String, Schema) -> Integer
      def register(subject, schema) = id_of(subject, schema)

      #: (String, Schema) -> bot
      def compatible?(subject, _schema)
        raise RegistryError.new("subject #{subject}", "a folder has no compatibility mode: ask a registry by its URL")
      end

      def inspect = @folder

      private

      def files = @lock.synchronize { @files ||= load }

      def versions(subject) = files.select { |file| file.subject == subject }.sort_by { |file| file.id || 0 }

      def schema_of(what, file)
        return file.schema || raise(file.error.dup) if file

        # The schema may be in one of the invalid files.
        broken = files.filter_map(&:error)
        reason = ["is not in #{@folder}", *broken.first&.message].join("; ")
        raise missing(what, reason)
      end

      # The subject's schemas that are like this one, at least one.
      def same(subject, schema)
        version(subject, "latest") # raises if there is no valid file
        found = versions(subject).filter_map(&:schema).select { |candidate| candidate.canonical == schema.canonical }
        found.empty? ? raise(missing("subject #{subject}", "exists in #{@folder} with another schema")) : found
      end

      # With the numbers of a registry that does not know a schema.
      def missing(what, reason) = RegistryError.new(what, reason, status: 404, code: 40_403)

      def load
        found = Dir.glob("*.avsc", base: @folder).sort.map { |file| read(file) }
        readable = found.reject(&:error)
        readable.each { |file| make(file, readable) }
        found
      end

      def make(file, all)
        texts = needed(file, all, file.names.defined.dup).map(&:text)
        file.schema = Schema.new(file.text, references: texts, subject: file.subject, id: file.id)
      rescue ConfigError => e
        file.error = RegistryError.new(file.path, e.message)
      end

      def read(file)
        path = File.join(@folder, file)
        subject, id = subject_and_id(file.delete_suffix(".avsc"))
        found = Found.new(path, subject, id&.to_i)
        found.text = File.read(path, encoding: "UTF-8")
        found.json = JSON.parse(found.text, max_nesting: 1000)
        found.names = Names.new(found.json)
        found
      rescue JSON::ParserError, EncodingError, SystemCallError => e
        found.error = RegistryError.new(path, e.is_a?(SystemCallError) ? e.message : "is not valid JSON")
        found
      end

      # Subject and id of "orders-value.7"
      def subject_and_id(base)
        case base
        when /\A\d+\z/ then [nil, base]
        when /\A(.+)\.(\d+)\z/ then [$1, $2]
        else [base, nil]
        end
      end

      # The files whose types this file uses, each after the files that it uses itself. known: type names defined so
      # far.
      def needed(file, all, known)
        file.names.used.flat_map do |names|
          name = names.find { |wanted| known.include?(wanted) || all.any? { |other| other.names.own == wanted } }
          next [] if name.nil? || known.include?(name)

          other = only(name, all)
          known.concat(other.names.defined)
          [*needed(other, all, known), other]
        end
      end

      # The file that defines this type. Raises ConfigError if several files define it differently.
      def only(name, all)
        found = all.select { |file| file.names.own == name }
        return found.first if found.map(&:json).uniq.size == 1

        files = found.map { |file| File.basename(file.path) }.join(", ")
        how = "keep one, and write the other type into the schemas that use it"
        raise ConfigError.new(name, nil, "is defined differently in #{files}: #{how}")
      end
    end
  end
end
