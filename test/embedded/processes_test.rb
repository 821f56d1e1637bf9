# frozen_string_literal: true

require "test_helper"
require "support/embedded_app"
require "support/forked_child"
require "support/lines"
require "tmpdir"

# `pelton server --processes` on the embedded cluster. (The real broker's twin: test/integration/operations.rb.)
class EmbeddedProcessesTest < Minitest::Test
  include EmbeddedApp
  include ForkedChild

  APP = <<~RUBY
    require "pelton"
    require "support/lines"

    LINES = Lines.new(ARGV_OF_TEST.fetch(:lines))

    class NotingConsumer < Pelton::Consumer
      def consume = messages.each { |message| LINES << ["done", Process.pid, message.raw_payload] }
    end

    Pelton.configure do |config|
      config.kafka = ARGV_OF_TEST.fetch(:kafka)
      config.group_id = "processes"
    end
    Pelton.routes { topic ARGV_OF_TEST.fetch(:topic), to: NotingConsumer }
    at_exit { LINES << ["exit", Process.pid, $!.status] }
  RUBY

  def setup
    super
    @folder = Dir.mktmpdir("pelton-processes")
    @lines = Lines.new(File.join(@folder, "lines"))
  end

  def teardown
    super
    FileUtils.rm_rf(@folder)
  end

  # Its pid, once both children consume.
  def serve(name)
    facts = { lines: File.join(@folder, "lines"), topic: name,
              kafka: { "bootstrap.servers" => @cluster.bootstrap_servers, **SESSION, **OFTEN } }
    file = File.join(@folder, "app.rb")
    File.write(file, "ARGV_OF_TEST = #{facts.inspect}.freeze\n#{APP}")
    root = Guard::ROOT
    Process.spawn(RbConfig.ruby, "-w", "-I#{root}/lib", "-I#{root}/test", "#{root}/exe/pelton", "server", "-r", file,
                  "-p", "2", out: File.join(@folder, "log"), err: %i[child out])
  end

  def told(what) = @lines.to_a.select { |kind,| kind == what }.map { |row| row.drop(1) }

  def test_child_that_cannot_start_is_not_restarted_for_ever
    file = File.join(@folder, "wrong.rb")
    File.write(file, <<~RUBY)
      require "pelton"
      Pelton.configure { |config| config.kafka = { "bootstrap.servers" => "localhost:1", "no.such.option" => "1" } }
      Pelton.routes { group("g") { topic "a", to: Class.new(Pelton::Consumer) { def consume; end } } }
    RUBY
    server = Process.spawn(RbConfig.ruby, "-w", "-I#{Guard::ROOT}/lib", "#{Guard::ROOT}/exe/pelton", "server",
                           "-r", file, "-p", "2", out: File.join(@folder, "log"), err: %i[child out])
    status = end_of(server, 30)
    server = nil
    assert_equal [1, true], [status.exitstatus, File.read(File.join(@folder, "log")).include?("no.such.option")]
  ensure
    server && end_of(server, 0)
  end

  def test_two_members_share_the_work_and_end_together
    name = topic(2)
    server = serve(name)
    writer = app
    sent = 0
    eventually(30, -> { "the work of two: #{File.read(File.join(@folder, "log"))}" }) do
      2.times { |partition| produce(writer, name, [(sent += 1).to_s], partition: partition) }
      eventually(30, "all of it") { told("done").map(&:last).uniq.size == sent }
      told("done").map(&:first).uniq.size == 2
    end
    await_commits("processes", name, sent / 2, sent / 2) # the mock takes none once the first has left
    Process.kill(:TERM, server)
    status = end_of(server, 30)
    server = nil
    assert_predicate status, :success?, File.read(File.join(@folder, "log"))
    assert_equal [0, 0, 0], told("exit").map(&:last)
    assert_equal 3, told("exit").map(&:first).uniq.size
  ensure
    server && end_of(server, 0)
  end
end
