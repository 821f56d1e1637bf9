# frozen_string_literal: true

# The part of the gem mutex_m that Debian's minitest needs, for a Ruby >= 3.4 without gems (see test_helper.rb).
module Mutex_m # rubocop:disable Naming/ClassAndModuleCamelCase
  LOCK = Mutex.new

  def synchronize(&block) = LOCK.synchronize { @mutex_m ||= Mutex.new }.synchronize(&block)
end
