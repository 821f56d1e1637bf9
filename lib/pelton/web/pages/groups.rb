# frozen_string_literal: true

require_relative "../page"
require_relative "../trend_view"

module Pelton
  class Web
    module Pages
      # All groups.
      class Groups < Page
        private

        def title = "Groups"
        def section = "/groups"
        def rows = now.groups.sort_by { |id, _| [-now.lag(id).to_i, id] }
      end

      # One group: its members, its partitions and what changed.
      class Group < Page
        include TrendView

        # Seconds without progress after which a partition is stuck.
        STUCK = 60

        def initialize(...)
          super
          raise NotFound, "There is no group #{id}." if now && !group && now.commits[id].nil?
        end

        private

        def title = "Group #{id}"
        def section = "/groups"
        def id = request[:id].to_s
        def group = now.groups[id]
        def changes = history.changes(id).first(30)

        # [["orders", 0], …]: with a commit or an owner. Of more than a page shows, the largest lags first.
        def topic_partitions
          @topic_partitions ||= (now.commits.fetch(id, {}).keys | owners.keys).sort.then do |all|
            all.size > MOST ? all.sort_by.with_index { |topic_partition, at| [-lags[topic_partition].to_i, at] } : all
          end
        end

        # "orders 0-2,5"
        def assignment(member)
          member.partitions.empty? ? "none" : shown(Numbers.partitions(member.partitions))
        end

        def owners = @owners ||= now.owners(id)
        def lags = @lags ||= now.lags(id)

        # Of a partition that needs attention and has no commit, as its process reports it.
        def lag(topic_partition) = lags[topic_partition] || reported.dig(topic_partition.join("/"), :lag)

        # Why a partition does not get on; nil: it does.
        def problem(topic_partition)
          lag = lags[topic_partition]
          return badge("does not exist", :warn) unless now.ends.key?(topic_partition)
          return long_call(topic_partition) if reported.dig(topic_partition.join("/"), :seconds)
          return reported_problem(topic_partition) if lag.nil?
          return if lag.zero?
          return badge("no owner", :bad) unless owners.key?(topic_partition)

          reported_problem(topic_partition) || held_by_transaction(topic_partition) ||
            (badge("no progress for a minute", :bad) if stuck?(topic_partition))
        end

        # What its process says: "paused", "failing", "stopped" …
        def reported_problem(topic_partition)
          state = reported.dig(topic_partition.join("/"), :state)
          badge(state, Reports::Report::BAD.include?(state) ? :bad : :warn) if state
        end

        # How long it runs, and the message that it is at.
        def long_call(topic_partition)
          row = reported[topic_partition.join("/")]
          offset = offset_link(row[:partition], row[:offset])
          Html.join([badge("long call, #{seconds(row[:seconds])}", :bad), "offset", offset], " ")
        end

        # {"orders/0" => row of Summary#partitions}
        def reported = @reported ||= troubled(id).to_h { |row| [row[:partition], row] }

        def stuck?(topic_partition)
          since = history.stuck_since(id, topic_partition)
          !since.nil? && now.at - since >= STUCK
        end

        # Consumers with read_committed wait before the first open transaction.
        def held_by_transaction(topic_partition)
          stable = stable_ends[topic_partition]
          return unless stable && stable <= now.commits.dig(id, topic_partition).to_i

          badge("behind an open transaction", :warn)
        end

        def stable_ends
          @stable_ends ||= begin
            waiting = away? ? [] : some(topic_partitions).select { |topic_partition| lags[topic_partition]&.positive? }
            app.admin.offsets(waiting.to_h { |topic_partition| [topic_partition, :end] }, committed: true, timeout: 5)
          rescue KafkaError
            {}
          end
        end
      end
    end
  end
end
