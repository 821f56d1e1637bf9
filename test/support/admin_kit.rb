# frozen_string_literal: true

require "support/fake_poller"
require "pelton/app"

# @admin: an administrator on a fake of the native one (@native), which records requests and answers with @answers.
module AdminKit
  # Native::Admin: answers with what the test put there; an object with `call` gets the argument of the request.
  class Native
    attr_reader :asked, :closes, :renewals

    def initialize(answers)
      @answers = answers
      @asked = []
      @closes = 0
      @renewals = 0
    end

    def request(kind, argument, timeout)
      @asked << [kind, argument, timeout]
      answer = @answers.fetch(kind)
      answer = answer.call(argument) if answer.respond_to?(:call)
      answer.is_a?(Exception) ? raise(answer) : answer
    end

    def renew = @renewals += 1

    def topics(_timeout) = @answers.fetch(:names)
    def close(_timeout) = (@closes += 1) && true
  end

  def setup
    @answers = {}
    native = @native = Native.new(@answers)
    made = @made = []
    @module = Module.new
    @module.const_set(:Poller, Class.new { define_singleton_method(:shared) { Fakes::Poller.new("pelton.poll") } })
    @module.const_set(:Admin, Class.new do
      define_singleton_method(:new) { |name, options, _| (made << [name, options]) && native }
    end)
    @admin = Pelton::Admin.new(Pelton::Config.new, native: @module, kafka: { "debug" => "admin" })
  end

  def teardown = @admin.close

  def asked = @native.asked.last.first(2)
end
