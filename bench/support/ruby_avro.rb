# frozen_string_literal: true

require "json"
require "stringio"

# Avro decoded by Ruby alone, as the avro gem reads: for each value a look at its type, and its bytes by reads of a
# StringIO. Kinder than the gem, which also matches each type with a reader's, and looks for logical types.
#   RubyAvro.new(File.read("order.avsc")).decode(payload) # => {"id" => "7", …}
class RubyAvro
  # name: :record, :array, :union, :string …; parts: of a record its fields by name, of a union its Types, of an
  # array its items' Type.
  Type = Struct.new(:name, :parts)

  #: (String) -> void
  def initialize(schema) = @type = type(JSON.parse(schema))

  #: (String) -> untyped
  def decode(bytes) = read(@type, StringIO.new(bytes))

  private

  # Of the types that Orders::SCHEMA has.
  def type(schema)
    case schema
    when String then Type.new(schema.to_sym)
    when Array then Type.new(:union, schema.map { |branch| type(branch) })
    else
      name = schema.fetch("type").to_sym
      parts = { record: -> { schema["fields"].to_h { |field| [field["name"], type(field["type"])] } },
                array: -> { type(schema["items"]) } }
      Type.new(name, parts.fetch(name).call)
    end
  end

  def read(type, io)
    case type.name
    when :null then nil
    when :boolean then io.readbyte == 1
    when :int, :long then integer(io)
    when :double then io.read(8).unpack1("E")
    when :string then io.read(integer(io)).force_encoding(Encoding::UTF_8)
    when :union then read(type.parts[integer(io)], io)
    when :record then record(type, io)
    when :array then array(type, io)
    else raise "no #{type.name} here"
    end
  end

  def record(type, io)
    type.parts.transform_values { |field| read(field, io) }
  end

  # Blocks; a negative count is followed by the block's size.
  def array(type, io)
    items = []
    until (count = integer(io)).zero?
      if count.negative?
        count = -count
        integer(io)
      end
      count.times { items << read(type.parts, io) }
    end
    items
  end

  def integer(io)
    byte = io.readbyte
    number = byte & 0x7f
    shift = 7
    while byte > 0x7f
      byte = io.readbyte
      number |= (byte & 0x7f) << shift
      shift += 7
    end
    (number >> 1) ^ -(number & 1)
  end
end
