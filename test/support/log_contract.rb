# frozen_string_literal: true

# What each log of a test producer does. The test has `log`, a new one.
module LogContract
  # Who was interrupted in a commit asks so whether it was carried out.
  def test_an_abort_after_a_commit_says_that_it_was_committed
    created = log
    created.begin
    assert created.abort, "nothing was committed"
    created.begin
    created.commit
    refute created.abort, "it was committed"
    created.begin
    assert created.abort, "the next one was not"
  end
end
