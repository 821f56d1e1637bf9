# frozen_string_literal: true

# once: the text is the same on every Ruby

require "support/scenario"

# `pelton dead-letters` on a real broker: without an app, with --json, interrupted by Ctrl-C and killed; with an app.

COUNT = 300

Scenario.run do
  input = topic(partitions: 2)
  dead = topic
  work = consumer { raise IOError, "not yet" }
  server = app(group: unique("group")) { topic(input, to: work) { dead_letters dead, retries: 0 } }
  server.producer.produce_many_sync(Array.new(COUNT) { |number| { topic: input, key: "k", payload: number.to_s } })
  server.start
  eventually(60, "all letters") { events(server, "message.dead_lettered").size == COUNT }
  server.stop

  call = lambda do |*arguments, code: 0|
    child = pelton("dead-letters", *arguments)
    equal(code, exit_code(child, 60), "exit code of #{arguments.join(" ")}\n#{child.output}")
    child.output
  end
  notes = /\A#{dead}:|\A\d{4}-|\AThere are more/ # on stderr
  json = ->(*arguments) { JSON.parse(call.(*arguments, "--json").lines.grep_v(notes).join) }

  listed = json.("list", dead, "--limit", "2")
  equal([2, "IOError", input], [listed.size, *listed.first.values_at("error", "topic")], "list")
  letter = json.("show", dead, listed.first.fetch("id"))
  equal([listed.first.fetch("place"), "k", "not yet"], letter.values_at("place", "key", "error_message"), "show")
  check(letter.fetch("backtrace").all? { |line| !line.include?("lib/pelton/consuming") },
        "backtrace #{letter["backtrace"]}")
  equal([{ "error" => "IOError", "letters" => COUNT }], json.("list", dead, "--by", "error"), "by error")
  check(call.("redrive", dead, "--dry-run").include?("would be redriven: #{COUNT} letters"), "a dry run")
  check(call.("delete", dead, code: 1).include?("--yes"), "no deletion without --yes")

  # --- Ctrl-C, then a kill ----------------------------------------------------------------------------------------
  child = pelton("dead-letters", "redrive", dead, "--rate", "20/s")
  letters = app.dead_letters(dead)
  eventually(60, "the first letters") { letters.each(status: :redriven).any? }
  child.kill(:INT)
  equal(130, exit_code(child), "interrupted\n#{child.output}")
  first = child.output[/^redriven: (\d+) letters of #{dead}$/, 1].to_i
  check(first.between?(1, COUNT - 1), child.output)
  check(child.output.include?("stopped before 0/#{first}\n"), child.output)
  equal(first, letters.each(status: :redriven).count, "redriven before Ctrl-C")

  child = pelton("dead-letters", "redrive", dead, "--rate", "100/s")
  eventually(60, "further letters") { letters.each(status: :redriven).count > first }
  child.kill(:KILL)
  exit_code(child)
  app_file = Tempfile.create(["app", ".rb"])
  app_file.write(<<~RUBY)
    Pelton.configure do |config|
      config.kafka = { "bootstrap.servers" => #{bootstrap.inspect} }
      config.group_id = "again"
    end
    class Again < Pelton::Consumer
      def process(_message) = nil
    end
    Pelton.routes { topic(#{input.inspect}, to: Again) { dead_letters #{dead.inspect} } }
  RUBY
  app_file.close
  call.("redrive", "-r", app_file.path)
  check(call.("redrive", dead).include?("redriven: 0 letters"), "nothing is left")
  payloads = app.each(input).map(&:raw_payload)
  equal(Array.new(COUNT, &:to_s).product([2]).to_h, payloads.tally, "each message twice: at first, and redriven")

  # --- repaired ------------------------------------------------------------------------------------------------------
  id = app.dead_letters(dead).each(status: :redriven).first.id
  fixed = Tempfile.create("payload")
  fixed.write(call.("show", dead, id, "--raw").sub(/\A/, "repaired "))
  fixed.close
  call.("redrive", dead, "--id", id, "--status", "redriven", "--payload", fixed.path)
  repaired = app.each(input).select { |message| message.raw_payload.start_with?("repaired ") }
  equal([["k", 1, 0]], repaired.map { |copy| [copy.key, copy.origin.redrives, copy.origin.attempts] }, "repaired")

  # --- deleted -----------------------------------------------------------------------------------------------------
  app.producer.produce_sync(topic: dead, key: "foreign", payload: "x")
  equal(1, json.("delete", dead, "--key", "foreign", "--yes").first.fetch("deleted"), "deleted")
  equal({ "redriven" => COUNT, "deleted" => 1 },
        json.("list", dead, "--by", "status", "--status", "all").to_h { |row| row.values_at("status", "letters") },
        "status")
ensure
  [app_file, fixed].compact.each { |file| File.unlink(file.path) }
end
