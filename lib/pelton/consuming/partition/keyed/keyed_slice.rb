# frozen_string_literal: true

require_relative "../../../batch"

module Pelton
  module Consuming
    # The messages of one job of a keyed backlog. The coordinator's lock guards it.
    class KeyedSlice
      # What the job gets.
      #: () -> Messages
      attr_reader :messages
      # [item, …] of those that are not finished, by offset.
      #: () -> Array[Item]
      attr_reader :items
      # [key queue, …] of its messages.
      #: () -> Array[KeyQueue]
      attr_reader :key_queues
      # [item, …]: finished items of the executor that are not marked, see Unmarked#list.
      #: () -> Array[Item]
      attr_reader :passed

      #: (Array[Item], Array[KeyQueue], Array[Item]) -> void
      def initialize(items, key_queues, passed)
        messages = items.map(&:message)
        @messages = Batch::Part.new(messages.first.topic, messages.first.partition, messages.freeze)
        @items = items
        @key_queues = key_queues
        @passed = passed
        # Will it be tried again?
        @failed = false
        # Did its own consumer seek? Then nothing of it counts.
        @sought = false
        # Did a seek drop some of its messages?
        @left = false
        items.each { |item| item.slice = self }
      end

      # The offset from which on messages are not finished; nil: all are.
      #: () -> Integer?
      def position = @items.first&.offset

      # The attempt of the first unfinished message.
      #: () -> Integer
      def attempt = @items.first&.key_queue&.attempt || 1

      # Does it have unfinished messages of several keys?
      #: () -> bool
      def mixed? = @items.any? { |item| !item.key_queue.equal?(@items.first.key_queue) }

      # Are the keys of its messages unknown, because `by` failed?
      #: () -> bool
      def keyless? = @key_queues.first.id.equal?(:whole)

      # Does nothing of it count any more?
      #: () -> bool
      def sought? = @sought || (@left && @items.empty?)

      # Does it still have messages that a seek left behind?
      #: () -> bool
      def left? = @sought || @left

      # Of the messages up to this offset, the consumer sees only these; the flow dropped the others.
      #: (Integer, Enumerable[Message]) -> void
      def dropped(upto, messages)
        kept = messages.to_h { |message| [message.offset, true] }
        @items.each do |item|
          break if item.offset > upto

          item.dropped = !kept[item.offset]
        end
      end

      # Removes and yields each message up to this offset, which is finished.
      #: (Integer) { (Item) -> void } -> void
      def finish(offset)
        while (item = @items.first) && item.offset <= offset
          @items.shift
          yield item
        end
      end

      # The unfinished messages are tried again at `time`. If they have several keys, it is unknown which key failed:
      # each key is tried by itself, and the attempt they had together does not count.
      #: (Float?, ?alone_until: Integer?, ?ending: bool) -> void
      def again(time, alone_until: nil, ending: false)
        @failed = true
        mixed = mixed?
        @items.map(&:key_queue).uniq.each do |key_queue|
          key_queue.wake_at = time
          # It failed again after the end had begun, so its next owner tries it.
          key_queue.left = ending && !mixed && key_queue.attempt > 1
          next key_queue.alone_until = alone_until || key_queue.alone_until unless mixed

          key_queue.attempt = 0
          key_queue.apart_until = @items.last.offset
        end
      end

      # The job is over. Yields each key queue, and whether its first message failed and will be tried again.
      #: () { (KeyQueue, bool) -> void } -> void
      def put_back
        tried = {}.compare_by_identity
        @items.each do |item|
          tried[item.key_queue] = true if @failed
          item.slice = nil
        end
        @key_queues.each { |key_queue| yield key_queue, tried.key?(key_queue) }
      end

      # Its consumer, which got the messages `given`, sought to this offset. Yields each unfinished message before it,
      # which is dropped. If the slice has one key, so are later messages of that key.
      #: (Messages, Integer) { (Item) -> void } -> void
      def seek_past(given, offset, &block)
        @sought = true
        seen = given.to_h { |message| [message.offset, true] }
        items = @items.select { |item| item.offset < offset && seen[item.offset] }
        items |= @key_queues.first.before(offset) if @key_queues.one? && !keyless?
        items.each(&block)
        leave
      end

      # A seek finished some of its messages.
      #: () -> void
      def leave
        @left = true
        @items.reject!(&:finished?)
      end

      # The last offset that its running job finishes without beginning another message. Messages that the flow dropped
      # before the present one are finished with it. nil: the job finishes nothing more.
      #: (Job) -> Integer?
      def reach(job)
        return if @items.empty?

        list = job.messages.messages
        at = list.bsearch_index { |message| message.offset >= position } if job.executor.process?
        [at && at + 1 < list.size ? list[at].offset : job.done.last_offset, @items.last.offset].min
      end
    end
  end
end
