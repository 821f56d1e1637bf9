# frozen_string_literal: true

require "support/scenario"
require "open3"

# The small commands of `pelton` on a real Kafka: how they find it, what they print, how they exit; and which groups and
# topics a server runs.

APP = <<~RUBY
  class NamedConsumer < Pelton::Consumer
    def consume = puts("consumed \#{topic} in \#{Process.pid}")
  end

  Pelton.configure { |config| config.kafka = { "bootstrap.servers" => ENV.fetch("APP_BOOTSTRAP") } }
  Pelton.routes do
    group(ENV.fetch("GROUP_A")) { topic ENV.fetch("TOPIC_A"), to: NamedConsumer }
    group(ENV.fetch("GROUP_B")) { topic ENV.fetch("TOPIC_B"), to: NamedConsumer }
  end
RUBY

# Runs commands to their end, in a folder of their own.
module Shell
  # [stdout, stderr, exit code]
  def run_pelton(*arguments, env: {}, input: "")
    environment = { "PELTON_BOOTSTRAP" => nil, "HOME" => @folder, **env }
    out, err, status = Open3.capture3(environment, *Scenario::RUBY, "#{Scenario::ROOT}/exe/pelton", *arguments,
                                      chdir: @folder, stdin_data: input)
    [out, err, status.exitstatus]
  end

  def facts(*arguments, env: {})
    out, err, code = run_pelton("info", "--json", *arguments, env: env)
    equal(0, code, "info #{arguments.join(" ")}: #{err}")
    JSON.parse(out)
  end

  # The same cluster, named in this way.
  def named_by(source, *arguments, env: {})
    found = facts(*arguments, env: env)
    equal(source, found.dig("connection", "named_by"), arguments.inspect)
    check(found.dig("cluster", "id").to_s.size > 5, found.inspect)
    found
  end
end

Scenario.run do
  extend Shell
  @folder = Dir.mktmpdir("pelton-command-line")
  at_exit { FileUtils.rm_rf(@folder) }

  # --- a signal while a command waits for a broker that is down ---

  trap("HUP", "DEFAULT") # children inherit what nohup, for instance, ignores
  dead = ["topics", "list", "--bootstrap", "127.0.0.1:1", "--timeout", "60"]
  %w[TERM INT HUP].each do |signal|
    Open3.popen3(*Scenario::RUBY, "#{Scenario::ROOT}/exe/pelton", *dead) do |_, _, err, process|
      err.gets # the first connection was refused
      Process.kill(signal, process.pid)
      equal(130, process.value.exitstatus, signal)
    end
  end

  # --- where the broker comes from ---

  direct = named_by("--bootstrap", "--bootstrap", bootstrap)
  equal(1, direct.dig("cluster", "brokers").size, "brokers")
  named_by("PELTON_BOOTSTRAP", env: { "PELTON_BOOTSTRAP" => bootstrap })
  FileUtils.mkdir_p("#{@folder}/.config")
  File.write("#{@folder}/.config/pelton.yml", "bootstrap.servers: #{bootstrap}\nclient.rack: home\n")
  named_by("~/.config/pelton.yml")
  File.write("#{@folder}/pelton.yml", "bootstrap.servers: #{bootstrap}\n")
  equal("./pelton.yml", named_by("./pelton.yml").dig("connection", "file"), "the file")
  File.write("#{@folder}/other.yml", "bootstrap.servers: localhost:1\n")
  named_by("-X", "--config", "other.yml", "-X", "bootstrap.servers=#{bootstrap}")
  File.write("#{@folder}/app.rb", APP)
  a = topic(name: unique("a"))
  b = topic(name: unique("b"))
  app_env = { "APP_BOOTSTRAP" => bootstrap, "GROUP_A" => unique("ga"), "GROUP_B" => unique("gb"),
              "TOPIC_A" => a, "TOPIC_B" => b }
  found = named_by("config.kafka", "-r", "./app.rb", env: { **app_env, "PELTON_BOOTSTRAP" => "localhost:1" })
  equal({ "groups" => 2, "topics" => 2, "retry_topics" => 0 }, found["routes"], "routes")
  elsewhere = { **app_env, "APP_BOOTSTRAP" => "localhost:1" }
  named_by("--bootstrap", "-r", "./app.rb", "--bootstrap", bootstrap, env: elsewhere)
  File.delete("#{@folder}/pelton.yml", "#{@folder}/.config/pelton.yml")

  out, _, code = run_pelton("info", "--bootstrap", "localhost:1", "--timeout", "1")
  equal(1, code, "a broker that does not answer")
  check(out.match?(/^cluster\n  error +.*_TIMED_OUT/), out)
  out, err, code = run_pelton("info", "--json")
  equal([0, nil], [code, JSON.parse(out)["cluster"]], "no broker at all: #{err}")

  # --- console ---

  app.producer.produce_sync(topic: a, payload: '{"n":7}')
  out, err, code = run_pelton("console", "--bootstrap", bootstrap, input: <<~RUBY)
    puts "has \#{Pelton.admin.topics('#{a}').keys.inspect}"
    puts "read \#{Pelton.each('#{a}').first(1).first.payload['n']}"
  RUBY
  equal(0, code, err)
  check(out.include?("has [\"#{a}\"]") && out.include?("read 7"), out)
  out, err, code = run_pelton("console", "-r", "./app.rb", "-e", "puts Pelton.app.routes.empty?", env: app_env)
  equal([0, "false\n"], [code, out], err)
  _, err, code = run_pelton("console", "-e", "raise 'no'")
  equal([1, true], [code, err.include?("pelton: no (RuntimeError")], err)

  # --- routes into a pipe that ends early, and completion in a shell ---

  pelton_command = [*Scenario::RUBY, "#{Scenario::ROOT}/exe/pelton"].map { |word| "'#{word}'" }.join(" ")
  said, status = Open3.capture2e(app_env, "bash", "-c",
                                 "set -o pipefail; #{pelton_command} help | (exec 0<&-; true); echo \"code $?\"")
  check(status.success? && said == "code 0\n", said)
  script = "source <(#{pelton_command} completion bash); COMP_WORDS=(pelton routes --j); COMP_CWORD=2; _pelton; " \
           'complete -p pelton; echo "${COMPREPLY[@]}"'
  said, = Open3.capture2e("bash", "--norc", "-c", script)
  equal("complete -F _pelton pelton\n--json\n", said, "completion")

  # --- the groups and topics of a server ---

  app.producer.produce_sync(topic: b, payload: "{}")
  served = lambda do |*arguments, env: {}|
    server = pelton("server", "-r", "#{@folder}/app.rb", *arguments, env: { **app_env, **env })
    eventually(30, -> { "a message\n#{server.output}" }) { server.output.include?("consumed") }
    server.kill(:TERM)
    equal(0, exit_code(server), server.output)
    server.output
  end
  text = served.call("--exclude-groups", app_env["GROUP_B"])
  check(text.include?("consumed #{a}") && !text.include?(app_env["GROUP_B"]), text)
  text = served.call(env: { "PELTON_EXCLUDE_TOPICS" => "a-*" })
  check(text.include?("consumed #{b}") && !text.include?(app_env["GROUP_A"]), text)
  app.producer.produce_sync(topic: a, payload: "{}")
  text = served.call("--processes", "2", env: { "PELTON_INCLUDE_GROUPS" => app_env["GROUP_A"] })
  check(text.include?("consumed #{a}") && !text.include?(app_env["GROUP_B"]), text)
  _, err, code = run_pelton("server", "-r", "./app.rb", "--include-topics", "#{a}x", env: app_env)
  equal([1, true], [code, err.include?("unknown topic in --include-topics, did you mean #{a}?")], err)
end
