# frozen_string_literal: true

require_relative "../../cli/messages/message_format"
require_relative "../../dead_letters"
require_relative "../message_view"
require_relative "../page"
require_relative "../time_limit"

module Pelton
  class Web
    module Pages
      # What the pages about dead letters share.
      class Letters < Page
        include MessageView

        private

        def section = "/dead-letters"
        def live? = web.actions.running?(topic)
        def needs_cluster? = false
        def topic = request[:topic]
        def letters = web.actions.letters(topic)
        def format = CLI::MessageFormat.new(nil, route: CLI::MessageFormat.route_of(app, topic))

        # The message that failed.
        def origin_link(origin)
          origin && link("#{origin.topic}/#{origin.partition} offset #{origin.offset}", "/message",
                         topic: origin.topic, partition: origin.partition, offset: origin.offset)
        end

        # To the error of letters, if processes reported it within the last hour; facts: those of Reports::Report that
        # the letters tell. Neither waits nor reads.
        def error_link(text, **facts)
          repeats = Repeats.of(web.reports.failures.select { |failure| failure.facts.slice(*facts.keys) == facts })
          return if repeats.empty?
          return link(text, "/error", id: repeats.first.id) if repeats.size == 1

          link(text, "/errors", error: facts[:class], group: facts[:group])
        end
      end

      # The letters of a topic, grouped by error; without a topic, the topics.
      class DeadLetters < Letters
        LIMIT = 50
        # How many of the newest offsets are read, at first and in all: so the newest letters are known first.
        OFFSETS = [1_000, 5_000, 20_000, 50_000].freeze
        STATUS = %w[open redriven deleted all].freeze
        # counts: {"KeyError" => 3}. newest: the letters that failed last. offsets: how many were read.
        Found = Struct.new(:counts, :newest, :offsets)
        private_constant :LIMIT, :OFFSETS, :Found

        private

        def title = topic ? "Dead letters of #{topic}" : "Dead letters"

        def chosen = STATUS.include?(request[:status]) ? request[:status] : "open"
        def filters = { status: chosen.to_sym, error: request[:error] }.compact

        # Reads the topic once: counts letters, and keeps those that failed last. @unread: what is missing. @problem:
        # why nothing could be read.
        def scan
          return if @found

          @found = Found.new({}, [], 0)
          ranges = check_answers(topic)
          late = reading { read(windows(ranges)) }
          # Not even the newest window was read to its end: better a part of it than nothing.
          @found = Found.new(@counts.dup, last_failed(@newest.dup), 0) if late && @found.offsets.zero? && @newest
          @unread = unread(late, ranges.each_value.sum(&:size))
        rescue Error => e
          @problem = explained(e)
        end

        # Why it ended early; nil: it did not. Raises what ended it before the first letter.
        def reading(&block)
          "Kafka took longer than #{TimeLimit::SECONDS} s" unless TimeLimit.run(&block)
        rescue Error => e
          raise if @newest.nil? || @newest.empty?

          explained(e).delete_suffix(".")
        end

        # [{ 0 => 900...1000 }, { 0 => 0...900 }]: the newest offsets of each partition, then those before them.
        def windows(ranges)
          ends = ranges.transform_values(&:end)
          OFFSETS.map do |most|
            each = most / [ranges.size, 1].max
            ranges.to_h do |partition, range|
              first = [range.end - each, range.begin].max
              window = first...ends[partition]
              ends[partition] = first
              [partition, window]
            end.reject { |_, window| window.size.zero? }
          end.reject(&:empty?)
        end

        # @found has whole windows: what is read of a window when the time is over are not its newest letters.
        def read(windows)
          @counts = Hash.new(0)
          @newest = []
          sizes = windows.map { |window| window.each_value.sum(&:size) }
          done = lambda do
            @found = Found.new(@counts.dup, @newest = last_failed(@newest), @found.offsets + sizes.shift)
          end
          letters.within(windows, done: done, status: filters[:status]) do |letter|
            @counts[letter.error] += 1
            @newest << letter if request[:error].nil? || letter.error == request[:error]
            @newest = last_failed(@newest) if @newest.size > LIMIT * 4
          end
        end

        # nil: all was read. late: why it was not.
        def unread(late, there)
          read = @found.offsets
          return if late.nil? && read == there
          return begun(late, there) if read.zero?

          ["#{"#{late}. " if late}The newest #{whole(read)} of #{whole(there)} offsets were read.",
           "Older letters are missing here."].join(" ")
        end

        # The same if not even the newest window was read.
        def begun(late, there)
          return "#{late}, so letters are missing here." if @found.counts.empty?

          "#{late}. A part of the newest #{whole([OFFSETS.first, there].min)} offsets was read. Letters are missing " \
            "here, also newer ones."
        end

        def last_failed(letters) = letters.max_by(LIMIT) { |letter| [letter.time.to_f, letter.offset] }
        def reported(name) = error_link("failures of the last hour", class: name)&.then { |link| tag(:small, link) }
        def counts = @found.counts.sort_by { |_, count| -count }
        def count = filters[:error] ? @found.counts.fetch(filters[:error], 0) : @found.counts.values.sum
        def actions? = web.actions.enabled? && chosen == "open" && count.positive?
        # What an action changes, also those that were not read.
        def meant = @unread ? "all letters" : plural(count, "letter")
      end

      # One letter: its error with the backtrace, where it came from, its contents.
      class DeadLetter < Letters
        def initialize(...)
          super
          raise NotFound, "A letter needs topic and id." unless topic

          check_answers(topic)
          in_time = TimeLimit.run { @letter = letters.find(request[:id].to_s) }
          raise TooLate, "The letter was not found within #{TimeLimit::SECONDS} s." unless in_time
          raise NotFound, "There is no such letter." unless @letter
        rescue ConfigError => e
          raise NotFound, e.message
        end

        private

        attr_reader :letter

        def title = "Dead letter #{letter.id}"
        def actions? = web.actions.enabled? && letter.status == :open

        def group = letter.group && group_link(letter.group)

        def reported
          error_link("its failures of the last hour", class: letter.error, group: letter.group,
                                                      topic: letter.origin&.topic)
        end

        # When a letter of another system failed is unknown.
        def letter_time
          name = letter.failed_at ? "Failed" : "Written"
          { name => letter.time && Numbers.time(letter.time) }
        end

        def facts
          from = letter.origin
          { "Status" => letter.status, **letter_time,
            "Group" => group, "Attempts" => from&.attempts, "Redrives" => from&.redrives,
            "Origin" => origin_link(from), "Place" => letter.place,
            "Key" => bytes_text(letter.message.raw_key), "Size" => Numbers.bytes(letter.message.size),
            "Redriven to" => letter.redriven_to, "Reported" => reported }.compact
        end
      end
    end
  end
end
