# frozen_string_literal: true

# What ActiveSupport::TimeWithZone is for native code: it says that it is a Time, but has one (Rails' Time.current,
# 1.day.ago, created_at).
class ZonedTime
  #: (Time) -> void
  def initialize(time)
    @time = time
  end

  def is_a?(kind) = kind == Time || super
  def to_time = @time
  def utc_offset = @time.utc_offset
end
