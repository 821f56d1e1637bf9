# frozen_string_literal: true

require_relative "../test_helper"
require "pelton"
require "pelton/testing"

# What kind of error each code of Kafka and librdkafka is: exactly these, of all that there are.
class NativeKafkaErrorTest < Minitest::Test
  KINDS = {
    assignment_lost?: %i[ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS FENCED_INSTANCE_ID
                         FENCED_MEMBER_EPOCH STALE_MEMBER_EPOCH _ASSIGNMENT_LOST],
    nothing_to_commit?: %i[_NO_OFFSET],
    fenced?: %i[_FENCED INVALID_PRODUCER_EPOCH PRODUCER_FENCED],
    taken_over?: %i[_FENCED INVALID_PRODUCER_EPOCH PRODUCER_FENCED FENCED_INSTANCE_ID],
    message_refused?: %i[MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_RECORD UNSUPPORTED_FOR_MESSAGE_FORMAT],
    purged?: %i[_PURGE_QUEUE _PURGE_INFLIGHT],
    permanent?: %i[CLUSTER_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED INVALID_TRANSACTION_TIMEOUT
                   UNSUPPORTED_VERSION _UNSUPPORTED_FEATURE]
  }.freeze
  ALL = (-200..200).map { |code| Pelton::Testing.error(code) }.reject { |error| error.name.to_s.match?(/\AERR_/) }

  KINDS.each do |kind, names|
    define_method("test_codes_that_are_#{kind.to_s.delete("?")}") do
      assert_equal names.sort, ALL.select(&kind).map(&:name).sort
    end
  end
end
