# frozen_string_literal: true

require_relative "../../consumer"
require_relative "../../producer"
require_relative "../command"
require_relative "../migrate/application"

module Pelton
  class CLI
    module Commands
      # `pelton migrate`
      class Migrate < Command
        details <<~TEXT
          Reads the Ruby files below PATH (a folder or one file) that use Karafka, WaterDrop, Racecar or Sidekiq, and
          prints for each construct what takes its place. It runs none of this code, reads no YAML file, and connects
          to no broker.

          STATUS is `same` for an equivalent, `differs` for one that works differently or needs your work, `none` where
          there is no counterpart, and `unknown` for what this command does not know. In what it prints, … stands for
          what you fill in.

          --write drafts config/pelton.rb of a Rails app, otherwise pelton.rb in PATH. It replaces no file.
        TEXT
        example "pelton migrate ."
        example "pelton migrate . --write", "also draft the file with settings and routes"
        example "pelton migrate . --status differs,none,unknown", "only what needs your attention"
        arguments "PATH"
        option :write, "--write", "write the draft"
        option :status, "--status LIST", "only these: same, differs, none, unknown", type: Array do |list|
          wrong = list.find { |status| !CLI::Migrate::KINDS.key?(status.to_sym) }
          raise ConfigError.unknown(wrong, CLI::Migrate::KINDS.keys, what: "status") if wrong

          list.map(&:to_sym)
        end

        private

        def run
          application = CLI::Migrate::Application.new(arguments.first)
          findings = application.findings
          application.errors.each { |error| failure(error) }
          written = write(application) if options[:write]
          shown = findings.select { |finding| options[:status].nil? || options[:status].include?(finding.kind) }
          output.report(facts(application, findings, shown, written)) { print(application, findings, shown, written) }
          application.errors.empty? && (written || !options[:write]) ? 0 : 1
        end

        # Returns the path; nil if nothing was written.
        def write(application)
          if application.errors.any?
            failure("nothing is written until these files can be read")
            return
          end
          if application.empty?
            failure("there are no settings and no routes to draft")
            return
          end
          path = application.target
          File.open(path, File::WRONLY | File::CREAT | File::EXCL) { |file| file.puts application.draft }
          path
        rescue Errno::EEXIST
          failure("#{path} exists: rename it, or run without --write")
          nil
        end

        def facts(application, findings, shown, written)
          { files: application.size, counts: counts(findings), written: written, errors: application.errors,
            findings: shown.map { |finding| { **finding.to_h, status: finding.kind }.except(:kind) } }
        end

        def counts(findings)
          CLI::Migrate::KINDS.keys.to_h do |kind|
            [kind, findings.count { |finding| finding.kind == kind }]
          end
        end

        def print(application, findings, shown, written)
          shown.group_by(&:file).each do |file, list|
            output.puts output.paint(file, :bold)
            list.each { |finding| print_finding(finding) }
            output.puts
          end
          output.puts "#{application.size} files read, #{findings.size} constructs found"
          counts(findings).each do |kind, count|
            output.puts "#{count.to_s.rjust(5)}  #{kind}: #{CLI::Migrate::KINDS[kind]}"
          end
          output.puts "written: #{written}" if written
        end

        COLORS = { same: :green, differs: :yellow, none: :red, unknown: :red }.freeze
        private_constant :COLORS

        def print_finding(finding)
          kind = output.paint(finding.kind.to_s.ljust(7), COLORS[finding.kind])
          output.puts "#{finding.line.to_s.rjust(5)}  #{kind}  #{finding.code}"
          output.puts "#{" " * 16}#{finding.pelton}" if finding.pelton
          output.puts "#{" " * 16}(#{finding.note})" if finding.note
        end
      end
    end
  end
end
