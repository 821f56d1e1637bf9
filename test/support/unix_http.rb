# frozen_string_literal: true

require "net/http"
require_relative "guard"

# Requests to a web server that listens on a Unix socket, as a proxy in front of it would send them.
class UnixHttp
  #: (String) -> void
  def initialize(socket) = @socket = socket

  # The file exists before the server listens on it.
  #: () -> bool
  def listens?
    UNIXSocket.new(@socket).close
    true
  rescue SystemCallError
    false
  end

  #: (Net::HTTPRequest) -> Net::HTTPResponse
  def call(request)
    request["Host"] = "localhost"
    request["X-Forwarded-Proto"] = "https" # Rails 7.1 and later redirect plain HTTP in production
    io = Net::BufferedIO.new(UNIXSocket.new(@socket), read_timeout: 60 * Guard::PATIENCE)
    request.exec(io, "1.1", request.path)
    response = Net::HTTPResponse.read_new(io)
    response.reading_body(io, request.response_body_permitted?) { response.body }
    response
  ensure
    io&.close
  end

  # A form.
  #: (String, Hash[String, String]) -> Net::HTTPResponse
  def post(path, fields) = call(Net::HTTP::Post.new(path).tap { |request| request.set_form_data(fields) })
end
