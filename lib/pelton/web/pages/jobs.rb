# frozen_string_literal: true

require_relative "../../schedule/recurring"
require_relative "../message_view"
require_relative "../page"
require_relative "../retries"
require_relative "../time_limit"
require_relative "processes"

module Pelton
  class Web
    module Pages
      # What runs, what waits for its time in config.schedule_topic, and what is tried again.
      class Jobs < Reported
        # A longer log is not read for a page.
        LONGEST_LOG = 300_000
        TIMEOUT = 5
        private_constant :LONGEST_LOG, :TIMEOUT

        private

        def title = "Jobs"
        def section = "/jobs"
        # While an action runs.
        def live? = !schedule_topic.nil? && web.actions.running?(schedule_topic)
        def several? = true
        def schedule_topic = app.config.schedule_topic

        # Reads the schedule once. @scheduled: those that are due next; @retried: jobs that failed before, of all that
        # are sent once; @recurring; @topics, @retried_total: counts. @unread: why there are none.
        def scan
          @scheduled = []
          @retried = []
          @recurring = []
          @topics = Hash.new(0)
          @retried_total = 0
          check_kafka
          return unless schedule_topic && short_log?
          return if TimeLimit.run { read }

          unread("#{schedule_topic} was not read within #{TimeLimit::SECONDS} s.")
        rescue ConfigError, KafkaError => e
          unread(e.message)
        end

        def unread(problem)
          @unread = problem
          @retried = []
        end

        def read
          again = []
          app.schedule.each do |entry|
            next @recurring << entry if entry.recurring

            @topics[entry.topic] += 1
            @scheduled = added(@scheduled, entry)
            next unless Retries.job?(entry)

            @retried_total += 1
            again = added(again, entry)
          end
          @scheduled = due_next(@scheduled)
          @retried = due_next(again).filter_map { |entry| Retries.job(entry) }
          @recurring.sort_by!(&:id)
        end

        def total = @topics.each_value.sum

        # The list with this entry, which has those that are due next of a long one.
        def added(entries, entry)
          entries << entry
          entries.size > MOST * 4 ? due_next(entries) : entries
        end

        def due_next(entries) = entries.min_by(MOST) { |entry| [entry.at_ms, entry.schedule_partition, entry.offset] }

        def short_log?
          records = log_size
          return true if records <= LONGEST_LOG

          @unread = "#{schedule_topic} has #{whole(records)} records, and a page reads at most " \
                    "#{whole(LONGEST_LOG)}. Run pelton schedule list."
          false
        end

        def log_size
          numbers = 0...app.producer.partition_count(schedule_topic, timeout: TIMEOUT)
          first, last = %i[beginning end].map do |position|
            topic_partitions = numbers.to_h { |number| [[schedule_topic, number], position] }
            app.admin.offsets(topic_partitions, committed: false, timeout: TIMEOUT).each_value.sum(&:to_i)
          end
          last - first
        end

        def failing = @failing ||= Retries.failing(summary.live, web.reports.failures)
        def retry_topics = @retry_topics ||= now ? Retries.topics(now) : []
        def retries? = [@retried, failing, retry_topics].any?(&:any?)

        def job_classes = @job_classes ||= summary.job_classes
        # 0.0123 → "12 ms"
        def duration(time) = time < 0.9995 ? "#{short((time * 1000).round(1))} ms" : seconds(time)

        def job_link(text, entry) = link(text, "/job", id: entry.id)

        # "in 2 h 5 min", or how late it is.
        def due_in(entry)
          seconds = entry.at.to_f - time
          seconds.negative? ? badge("#{seconds(-seconds)} late", :warn) : "in #{seconds(seconds)}"
        end
      end

      # One message that waits for its time.
      class Job < Page
        include MessageView

        def initialize(...)
          super
          schedule = app.schedule
          check_answers(schedule_topic)
          in_time = TimeLimit.run { @entry = schedule.find(request[:id].to_s) }
          raise TooLate, "The message was not found within #{TimeLimit::SECONDS} s." unless in_time
          raise NotFound, "No message waits under the id #{request[:id]}: it was sent or canceled." unless @entry
        rescue ConfigError => e
          raise NotFound, e.message
        end

        private

        attr_reader :entry

        def title = "Job #{entry.id}"
        def section = "/jobs"
        def live? = false
        def needs_cluster? = false
        def schedule_topic = app.config.schedule_topic

        def facts
          { "Topic" => topic_link(entry.topic), "Due" => clock(entry.at), "Recurring" => entry.recurring,
            "Sent last" => entry.last && clock(entry.last / 1000.0), "Key" => bytes_text(entry.key),
            "Partition" => entry.partition,
            "Stored at" => "#{schedule_topic}/#{entry.schedule_partition} offset #{entry.offset}",
            "Size" => Numbers.bytes(entry.payload&.bytesize) }.compact
        end
      end
    end
  end
end
