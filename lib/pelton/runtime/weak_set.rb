# frozen_string_literal: true

module Pelton
  # Objects that may be collected although they are members. Not thread-safe: guard it by a lock.
  #
  # Each member is its own value, because Ruby 3.1's `WeakMap#keys` also lists keys that were collected, if their values
  # are not objects of the heap (such as true). To call such a key crashes the process.
  class WeakSet
    def initialize
      @members = ObjectSpace::WeakMap.new # {object => the same object}
    end

    #: (untyped) -> self
    def add(object)
      @members[object] = object
      self
    end

    #: () -> Array[untyped]
    def to_a = @members.values
  end
end
