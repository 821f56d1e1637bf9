# frozen_string_literal: true

require_relative "finding"

module Pelton
  class CLI
    module Migrate
      DESERIALIZER = "messages have no `metadata`; not called for a tombstone; reading raises Pelton::DecodeError, " \
                     "with the deserializer's error as its cause: change each `rescue`"
      # What becomes of a word in the block of a topic. TopicWords translates the others.
      WORDS = {
        "max_messages" => Migrate.same("max_messages %s"),
        "manual_offset_management" => Migrate.same("manual_offsets %s"),
        "active" => Migrate.same("active %s"),
        "delay_by" => Migrate.same("delay %<seconds>s", "seconds, not milliseconds"),
        "delaying" => Migrate.same("delay %<seconds>s", "seconds, not milliseconds"),
        "expiring" => Migrate.same("expire_after %<seconds>s", "seconds, not milliseconds"),
        "expire_in" => Migrate.same("expire_after %<seconds>s", "seconds, not milliseconds"),
        "deserializer" => Migrate.differs("deserializer %s", DESERIALIZER),
        "filter" => Migrate.differs("filter { |message| … }",
                                    "false drops the message; to wait with it, use throttle, or pause in the consumer"),
        "max_wait_time" => Migrate.none("a call gets what has arrived; fetch.min.bytes of the group waits for more"),
        "non_blocking_job" => Migrate.differs(nil, "no mode is needed: polling never waits for consumers"),
        "eofed" => Migrate.same(nil, "a method reached_end in the consumer is enough"),
        "consumer_persistence" => Migrate.none("a partition keeps its consumer object until it is revoked"),
        "inline_insights" => Migrate.none("subscribe to stats.measured, or use Pelton.admin.lag"),
        "adaptive_iterator" => Migrate.none("not needed: a long batch does not cost the place in the group"),
        "offset_metadata" => Migrate.differs("offset_metadata in the consumer", "a String; decode it in the consumer"),
        "multiplexing" => Migrate.none("a group has one client: start more processes"),
        "parallel_segments" => Migrate.none("start more processes, or use concurrency with keys"),
        "swarm" => Migrate.none("pelton server -t TOPIC starts some topics only"),
        "scheduler" => Migrate.none("workers take jobs of all groups in turn"),
        "recurring_tasks" => Migrate.recurring,
        "scheduled_messages" => Migrate.later,
        "load_shedding" => Migrate.none("use expire_after or filter")
      }.freeze
    end
  end
end
