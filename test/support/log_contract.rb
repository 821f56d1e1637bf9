# frozen_string_literal: true

# What each log of a test producer does. The test has `log`, a new one.
module LogContract
  # Who was interrupted in a commit asks so whether it was carried out.
  def test_an_abort_after_a_commit_says_that_it_was_committed
    one = log
    one.begin
    assert one.abort, "nothing was committed"
    one.begin
    one.commit
    refute one.abort, "it was committed"
    one.begin
    assert one.abort, "the next one was not"
  end
end
