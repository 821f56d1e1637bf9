# frozen_string_literal: true

module Pelton
  # Numbers as people read them.
  module Numbers
    STEPS = { 1e12 => "T", 1e9 => "G", 1e6 => "M", 1e3 => "k" }.freeze
    # As in config.memory, where "1MB" is 1,048,576 bytes.
    BYTES = { 2.0**40 => "T", 2.0**30 => "G", 2.0**20 => "M", 2.0**10 => "k" }.freeze
    PARTS = { 86_400 => "d", 3600 => "h", 60 => "min" }.freeze
    private_constant :STEPS, :BYTES, :PARTS

    module_function

    # 1234567 → "1,234,567"; nil → "–".
    #: (Integer?) -> String
    def whole(number) = number ? number.round.to_s.gsub(/(\d)(?=(\d{3})+\z)/, '\1,') : "–"

    # 12345.6 → "12.3 k", 0.25 → "0.25", 42 → "42".
    #: (Numeric?) -> String
    def short(number)
      return "–" unless number

      size, unit = STEPS.find { |step, _| number.abs >= step * 0.9995 } # or 999,600 would be "1e+03 k"
      return "#{format("%.3g", number / size)} #{unit}" if size

      number.abs >= 99.5 || number.to_i == number ? number.round.to_s : format("%.2g", number)
    end

    # 75 → "1 min 15 s", 3.21 → "3.2 s", 0.01 → "0 s"; nil → "–".
    #: (Numeric?) -> String
    def seconds(number)
      return "–" unless number
      return "#{number < 10 && number >= 0.05 ? number.round(1) : number.round} s" if number < 60

      size, unit = PARTS.find { |step, _| number >= step }
      left = PARTS.find { |step, _| step < size } || [1, "s"]
      rest = (number % size / left.first).floor
      "#{(number / size).floor} #{unit}#{" #{rest} #{left.last}" if rest.positive?}"
    end

    # 1234567 bytes → "1.18 MB".
    #: (Numeric?) -> String
    def bytes(number)
      return "–" unless number

      size = unit_of(number)
      value = number / size
      "#{value.abs >= 100 ? value.round : format("%.3g", value)} #{BYTES[size]}B"
    end

    # The size of the unit in which this number of bytes is shown: 1048576.0 for "1.18 MB".
    #: (Numeric) -> Float
    def unit_of(bytes) = BYTES.each_key.find { |size| bytes.abs >= size * 0.9995 } || 1.0 # as above

    # [["orders", 0], ["orders", 1], ["orders", 5], ["bills", 0]] → "bills 0; orders 0-1,5".
    #: (Array[[String, Integer]]) -> String
    def partitions(pairs)
      pairs.sort.group_by(&:first).map do |topic, all|
        runs = all.map(&:last).slice_when { |number, following| following > number + 1 }
        "#{topic} #{runs.map { |run| [run.first, run.last].uniq.join("-") }.join(",")}"
      end.join("; ")
    end

    # 1763850000.123 → "2025-11-22 22:20:00 UTC".
    #: ((Numeric | Time)?) -> String
    def time(seconds) = seconds ? Time.at(seconds).utc.strftime("%F %T UTC") : "–"
  end
end
