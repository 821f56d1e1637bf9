# frozen_string_literal: true

require "json"

# A topic of which librdkafka has all messages in memory when the time begins. So the time includes the processing and
# not the network. Each measurement is a process, so that they share no native threads and no heap.
#
#   found = Prefetched.new(topic, 10_000, decode: :json).measure { |feed| feed.each { |batch| batch.release } }
#   found.seconds / found.messages
class Prefetched
  PARTITIONS = Cluster.kind == "kafka" || Bench::QUICK ? 2 : 16
  BATCH = Bench::QUICK ? 10 : 100
  # Everything is fetched, and then waits.
  FETCH = { "queued.max.messages.kbytes" => 2_000_000, "queued.min.messages" => 10_000_000,
            "statistics.interval.ms" => 100, "enable.auto.commit" => true }.freeze
  # So long nothing comes when the batches that may be out are out.
  CALM = 0.1

  # options: as of Cluster.consume; threads: native ones that decode.
  def initialize(topic, count, decode: nil, where: nil, threads: nil, partitions: PARTITIONS, **settings)
    @topic = topic
    @count = count
    @partitions = partitions
    @given = { decode: { topic => decode }.compact, where: { topic => where }.compact }
    @settings = { prefetch_batches: 1, max_messages: BATCH, decoding_threads: threads, **settings }.compact
  end

  # cpu: seconds of all threads. value: the block's. early: what `early` gave for the messages that were out and maybe
  # decoded when the time began, which the feed leaves out: for a check of the value.
  Found = Struct.new(:messages, :seconds, :cpu, :objects, :value, :early)

  # The block takes all messages of the feed, releases their batches, and returns something that is fit for JSON. ready:
  # called before the time begins, with the messages that are out; the block gets what it returns.
  #: (?early: ^(Pelton::Message) -> untyped, ?ready: ^(Array[Pelton::Message]) -> untyped)
  #:   { (Prefetched, untyped) -> untyped } -> Found
  def measure(early: ->(_message) {}, ready: ->(_messages) {}, &block)
    Found.new(*Bench.forked { open { timed(early, ready, &block) } })
  end

  # Batches, until all messages were there. work: called between looks for a batch, which then do not wait.
  #: (?^() -> untyped) { (Pelton::Batch) -> void } -> void
  def each(work = nil)
    @early.each(&:release)
    while @left.positive?
      work&.call
      kind, batch = @subscription.poll(work ? 0 : 60)
      next if kind.nil? && work
      raise "poll gave #{kind.inspect} #{batch.inspect}, #{@left} messages missing" unless kind == :batch

      @left -= batch.size + batch.dropped
      yield batch
    end
  end

  private

  def open
    bus = Pelton::Notifications.new
    fetched = Thread::Queue.new
    bus.subscribe("statistics.emitted") { |event| fetched << true if all?(event[:statistics]) }
    @subscription = Pelton::Subscription.new(Cluster.config(**@settings), group_id: "bench-#{SecureRandom.hex(4)}",
                                                                          bus: bus, kafka: FETCH, **@given)
    # Not :beginning, which librdkafka would ask for before it knows the leader, and again half a second later.
    @subscription.assign((0...@partitions).map { |number| [@topic, number, 0] })
    fetched.pop
    @early = []
    while (kind, batch = @subscription.poll(CALM))
      @early << batch if kind == :batch
    end
    @left = @count - @early.sum { |early| early.size + early.dropped }
    yield
  ensure
    @subscription&.close(30)
  end

  def all?(statistics)
    partitions = statistics.dig("topics", @topic, "partitions").to_h.except("-1")
    partitions.sum { |_, facts| [facts["next_offset"], 0].max } >= @count
  end

  # A forked process has its parent's heap until it writes to it, page by page, and each page costs as much as making
  # some ten objects. A consumer has paid that long ago: so all of the heap is written to before the time begins.
  def own_heap
    collections = GC.count
    value = yield
    value = yield until GC.count > collections + 2
    value
  end

  # In the order of Found.
  def timed(early, ready)
    out = @early.flat_map(&:messages)
    early = own_heap { out.map(&early) }
    ready = ready.call(out)
    messages = @left
    value = nil
    GC.start
    objects = GC.stat(:total_allocated_objects)
    cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    seconds = Bench.seconds { value = yield self, ready }
    cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - cpu
    [messages, seconds, cpu, GC.stat(:total_allocated_objects) - objects, value, early]
  end
end
