# frozen_string_literal: true

require_relative "../test_helper"
require "open3"
require "pty"
require "tmpdir"
require "pelton/cli/cli"
require "pelton/cli/completion"

# The completion scripts, in the shells themselves: each test types the beginning of a command line and asks the shell.
class CompletionTest < Minitest::Test
  class List < Pelton::CLI::Command
    example "pelton topics list"
    option :level, "-l", "--level LEVEL", "how [much] it's", choices: %w[low high]
    option :file, "--file FILE", "from here"
    option :limit, "--limit N", "at most"
    option :log, "--[no-]log", "log"
  end

  class Shell < Pelton::CLI::Command
    arguments "bash|zsh|fish"
  end

  ROWS = { "topics list" => List, "topics show" => Shell, "tail" => List, "shell" => Shell }.map do |name, command|
    Pelton::CLI::Completion::Row.new(name, "print: [some] of it's", command.declared)
  end

  def setup
    @folder = Dir.mktmpdir
    File.write(File.join(@folder, "one file.yml"), "")
  end

  def teardown = FileUtils.remove_entry(@folder)

  def script(shell)
    skip "no #{shell} here" unless system("command -v #{shell} >/dev/null")
    File.join(@folder, shell).tap { |path| File.write(path, Pelton::CLI::Completion.script(shell, ROWS)) }
  end

  # --- bash ---

  # What _pelton offers for these words, the last of which is incomplete.
  def bash(*words)
    program = "source #{script("bash")}; cd #{@folder}; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _pelton; " \
              'printf "%s\n" "${COMPREPLY[@]}"'
    said, status = Open3.capture2e("bash", "--norc", "-c", program, "bash", "pelton", *words)
    assert status.success?, said
    said.split("\n").reject(&:empty?).sort
  end

  def test_bash_registers_the_function
    said, = Open3.capture2e("bash", "--norc", "-c", "source #{script("bash")}; complete -p pelton")
    assert_equal "complete -F _pelton pelton\n", said
  end

  def test_bash_completes_commands
    assert_equal %w[--help --version help shell tail topics], bash("")
    assert_equal %w[tail topics], bash("t")
    assert_equal %w[list], bash("topics", "l")
    assert_equal %w[shell tail topics], bash("help", "")
    assert_empty bash("nothing", "")
  end

  def test_bash_completes_options_and_their_values
    assert_equal %w[--level --limit --log], bash("topics", "list", "--l")
    assert_equal %w[--level --limit --log], bash("tail", "--json", "--l")
    assert_equal %w[--level --limit --log], bash("tail", "orders", "--l")
    assert_equal %w[high low], bash("topics", "list", "--level", "")
    assert_equal %w[low], bash("topics", "list", "-l", "l")
    assert_equal %w[low], bash("topics", "list", "--level", "=", "l")
    assert_equal ["one file.yml"], bash("tail", "--file", "one")
    assert_empty bash("tail", "--limit", "")
    assert_equal %w[zsh], bash("shell", "z")
  end

  # --- fish ---

  def fish(line)
    said, status = Open3.capture2e({ "HOME" => @folder }, "fish", "--no-config", "-c",
                                   "source #{script("fish")}; cd #{@folder}; complete -C #{line.inspect}")
    assert status.success?, said
    said.split("\n").map { |row| row[/\A[^\t]*/] }.sort
  end

  def test_fish_completes_commands
    assert_equal %w[help shell tail topics], fish("pelton ")
    assert_equal %w[tail topics], fish("pelton t")
    assert_equal %w[list], fish("pelton topics l")
    assert_equal %w[shell tail topics], fish("pelton help ")
    assert_empty fish("pelton nothing ")
  end

  def test_fish_completes_options_and_their_values
    assert_equal %w[--level --limit --log], fish("pelton topics list --l")
    assert_equal %w[--no-log], fish("pelton tail --json --no")
    assert_equal %w[--no-log], fish("pelton tail orders --no")
    assert_equal %w[high low], fish("pelton topics list --level ")
    assert_equal %w[low], fish("pelton topics list -l l")
    assert_equal ["one file.yml"], fish("pelton tail --file one").map { |name| name.delete("\\") }
    assert_equal %w[zsh], fish("pelton shell z")
    assert_empty fish("pelton topics --l")
  end

  # --- zsh ---

  # The command lines after a Tab, as an interactive zsh on a terminal completes them.
  def zsh(*lines)
    answers = File.join(@folder, "answers")
    File.write(answers, "")
    File.write(File.join(@folder, ".zshrc"), <<~ZSH)
      autoload -U compinit && compinit -u -D
      source #{script("zsh")}
      unsetopt menu_complete auto_menu
      note() { print -r -- "$BUFFER" >> #{answers}; BUFFER=; }
      zle -N note
      bindkey '^X' note
      bindkey '^I' complete-word
      cd #{@folder}
      print ready
    ZSH
    PTY.spawn({ "ZDOTDIR" => @folder, "TERM" => "dumb" }, "zsh", "-i") do |output, input, pid|
      read_until(output, "ready")
      lines.each.with_index(1) do |line, count|
        input.write("#{line}\t\x18")
        eventually(20, "an answer for #{line}") { File.readlines(answers).size == count }
      end
    ensure
      stop(pid)
    end
    File.readlines(answers, chomp: true)
  end

  def read_until(output, text)
    read = +""
    eventually(20, -> { "#{text} in #{read}" }) do
      read << output.read_nonblock(1000, exception: false).to_s
      read.include?(text)
    end
  end

  def stop(pid)
    Process.kill(:KILL, pid)
    Process.wait(pid)
  rescue Errno::ESRCH, Errno::ECHILD
    nil # it ended
  end

  def test_zsh_completes_commands
    assert_equal ["pelton shell ", "pelton topics list ", "pelton help shell "],
                 zsh("pelton s", "pelton topics l", "pelton help s")
  end

  def test_zsh_completes_options_and_their_values
    assert_equal ["pelton topics list --level=", "pelton topics list --level low ", "pelton tail --json --no-log ",
                  "pelton tail orders --no-log ", "pelton tail orders --level high ", "pelton shell zsh --help ",
                  'pelton tail --file one\ file.yml ', "pelton shell zsh "],
                 zsh("pelton topics list --lev", "pelton topics list --level l", "pelton tail --json --no",
                     "pelton tail orders --no", "pelton tail orders --level h", "pelton shell zsh --he",
                     "pelton tail --file one", "pelton shell z")
  end
end
