# frozen_string_literal: true

require "open3"
require "support/embedded_app"

# Programs that produce to the embedded cluster and end: what they say, and what arrived.
module ExitKit
  include EmbeddedApp

  ROOT = File.expand_path("../..", __dir__)

  # Ruby code in a process of its own, with `configure`; returns [status, stdout, stderr].
  def program(code, limit: 30 * Guard::PATIENCE, servers: @cluster.bootstrap_servers)
    @topic ||= topic
    setup = <<~RUBY
      require "pelton"
      TOPIC = #{@topic.inspect}
      def configure(app, **settings)
        app.configure do |config|
          config.kafka = { "bootstrap.servers" => #{servers.inspect} }
          settings.each { |name, value| config.set(name, value) }
        end
        app
      end
      configure(Pelton.app)
      def produce(*payloads, by: Pelton.producer)
        payloads.each { |payload| by.produce_async(topic: TOPIC, payload: payload) }
      end
    RUBY
    command = [RbConfig.ruby, "-w", "-I#{ROOT}/lib", "-e", "#{setup}\n#{code}"]
    out = err = status = nil
    Open3.popen3(*command, pgroup: true) do |input, *streams, thread|
      input.close
      readers = streams.map { |stream| Thread.new { stream.read } }
      Process.kill(:KILL, -thread.pid) unless thread.join(limit)
      out, err = readers.map(&:value)
      status = thread.value
    end
    [status, out, err]
  end

  # What the process says whose messages fail after `produce` took them. If it stalls between two calls of librdkafka,
  # librdkafka knows the partitions already, and `produce` raises: then once more.
  def errors_of_taken(code)
    errors = nil
    eventually(20) { !(errors = program(code).last).include?("(Pelton::DeliveryError)") }
    errors
  end

  def delivered = Pelton.each(@topic, kafka: { "bootstrap.servers" => @cluster.bootstrap_servers }).map(&:raw_payload)

  # Number of messages that failed, by the exit ("3 messages to …") or by the log (a line, and "(and 1 more …)").
  def told(errors)
    errors.lines.sum { |line| line[/ (\d+) messages? to /, 1]&.to_i || (1 + line[/and (\d+) more/, 1].to_i) }
  end
end
