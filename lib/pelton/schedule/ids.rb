# frozen_string_literal: true

require "securerandom"
require_relative "../errors"
require_relative "../settings/settings"

module Pelton
  class Schedule
    # Ids of entries, and the partitions of the schedule topic that they belong to. An id that Pelton makes names its
    # partition, which the message's key has chosen: "@2.h3Vw0…". So entries of one key are in one partition, in their
    # order. The partition of an id that the user chose is the one of this String.
    module Ids
      OWN = /\A@(\d+)\./
      PARTITIONER = "murmur2_random"
      EXPECTED = "a String (UTF-8) of 1 to 200 bytes that does not begin with @"
      private_constant :OWN, :PARTITIONER, :EXPECTED

      module_function

      # The id that a user chose, as UTF-8. Raises InvalidMessageError.
      #: (untyped) -> String
      def check(id)
        text = Settings.utf8(id)
        return text if text&.bytesize&.between?(1, 200) && !text.start_with?("@")

        raise InvalidMessageError.new(:id, id, EXPECTED)
      end

      # [id, partition] of a new message. partitions: the producer's, see Producer::Partitions.
      #: (untyped, Hash[Symbol, untyped], untyped, String, Numeric) -> [String, Integer]
      def assign(id, message, partitions, topic, timeout)
        id &&= check(id)
        return [id, partition(id, partitions, topic, timeout)] if id

        random = SecureRandom.urlsafe_base64(12)
        by = message[:partition_key] || message[:key]
        by = "#{message[:topic]}/#{message[:partition]}" if by.nil? && message[:partition]
        number = partition(by || random, partitions, topic, timeout)
        ["@#{number}.#{random}", number]
      end

      # The partition of an id.
      #: (String, untyped, String, Numeric) -> Integer
      def partition(id, partitions, topic, timeout)
        id[OWN, 1]&.to_i || partitions.choose(PARTITIONER, topic, id, timeout)
      end
    end
  end
end
