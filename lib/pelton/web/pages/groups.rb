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
        def places
          @places ||= (now.commits.fetch(id, {}).keys | owners.keys).sort.then do |all|
            all.size > MOST ? all.sort_by.with_index { |place, at| [-lags[place].to_i, at] } : all
          end
        end

        def owners = @owners ||= now.owners(id)
        def lags = @lags ||= now.lags(id)

        # Why a partition does not get on; nil: it does.
        def problem(place)
          lag = lags[place]
          return badge("does not exist", :warn) unless now.ends.key?(place)
          return long_call(place) if reported.dig(place.join("/"), :seconds)
          return if lag.nil? || lag.zero?
          return badge("no owner", :bad) unless owners.key?(place)

          reported_problem(place) || held_by_transaction(place) ||
            (badge("no progress for a minute", :bad) if stuck?(place))
        end

        # What its process says: "paused", "failing", "stopped" …
        def reported_problem(place)
          state = reported.dig(place.join("/"), :state)
          badge(state, Reports::Report::BAD.include?(state) ? :bad : :warn) if state
        end

        # How long it runs, and the message that it is at.
        def long_call(place)
          row = reported[place.join("/")]
          offset = offset_link(row[:partition], row[:offset])
          Html.join([badge("long call, #{seconds(row[:seconds])}", :bad), "offset", offset], " ")
        end

        # {"orders/0" => row of Summary#partitions}
        def reported = @reported ||= troubled(id).to_h { |row| [row[:partition], row] }

        def stuck?(place)
          since = history.stuck_since(id, place)
          !since.nil? && now.at - since >= STUCK
        end

        # Consumers with read_committed wait before the first open transaction.
        def held_by_transaction(place)
          stable = stable_ends[place]
          return unless stable && stable <= now.commits.dig(id, place).to_i

          badge("behind an open transaction", :warn)
        end

        def stable_ends
          @stable_ends ||= begin
            waiting = error ? [] : some(places).select { |place| lags[place]&.positive? }
            app.admin.offsets(waiting.to_h { |place| [place, :end] }, committed: true, timeout: 5)
          rescue KafkaError
            {}
          end
        end
      end
    end
  end
end
