# frozen_string_literal: true

# Forked children of a test, which end without at_exit, because minitest's would run there, too.
module ForkedChild
  # Runs the block in a child. Returns its result, one line each.
  def in_child(limit: 15)
    reader, writer = IO.pipe
    pid = fork do
      writer.puts(yield)
      writer.close
      GC.start
      exit!(0)
    rescue Exception => e # rubocop:disable Lint/RescueException
      warn(e.full_message)
      exit!(1)
    end
    writer.close
    status = end_of(pid, limit)
    assert status, "the child hangs"
    assert_predicate status, :success?, status.inspect
    reader.read
  ensure
    reader&.close
  end

  # The status of a child that ends within the limit; nil for one that did not (it is killed).
  def end_of(pid, limit = 10)
    deadline = now + (limit * Guard::PATIENCE)
    loop do
      _, status = Process.wait2(pid, Process::WNOHANG)
      return status if status

      if now > deadline
        Process.kill(:KILL, pid)
        Process.wait(pid)
        return nil
      end
      IO.select(nil, nil, nil, 0.01)
    end
  end

  # The class of the error that the block raised.
  def outcome
    yield
    "nothing"
  rescue StandardError => e
    e.class.name
  end
end
