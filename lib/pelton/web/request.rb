# frozen_string_literal: true

require "securerandom"
require "uri"

module Pelton
  class Web
    # What a Rack environment says.
    class Request
      # The cookie that forms must know: see Actions.
      TOKEN = "pelton_token"
      # Most bytes of a form.
      BODY = 1 << 20
      private_constant :BODY

      #: (Hash[String, untyped]) -> void
      def initialize(env)
        @env = env
        @pairs = @params = @token = nil
      end

      #: () -> String
      def verb = @env["REQUEST_METHOD"]
      #: () -> bool
      def get? = %w[GET HEAD].include?(verb)
      # Where the dashboard is mounted: "" or "/kafka".
      #: () -> String
      def base = @env["SCRIPT_NAME"].to_s
      # "/groups". With one slash: a link to //example.com would lead to another site.
      #: () -> String
      def path = @env["PATH_INFO"].to_s.scrub.sub(%r{\A/*}, "/")
      # The same page again, for a link.
      #: () -> String
      def here = "#{base}#{path}#{"?#{query}" unless query.empty?}"

      # A header: header("HOST").
      #: (String) -> String?
      def header(name) = @env["HTTP_#{name}"]
      #: () -> String?
      def address = @env["REMOTE_ADDR"]

      # The value of a field of the query or of a form; nil: it is missing or empty.
      #: (Symbol) -> String?
      def [](name) = params.fetch(name.to_s, nil)

      # The values of a field that may be there more than once, such as boxes that are checked: ["0/1", "0/2"].
      #: (Symbol) -> Array[String]
      def all(name) = pairs.filter_map { |field, value| value if field == name.to_s && !value.empty? }

      # {"topic" => "orders"}. Text that is not UTF-8 is left out.
      #: () -> Hash[String, String]
      def params = @params ||= pairs.to_h.reject { |_, value| value.empty? }

      # What the reader's browser used, also if a proxy ends its TLS.
      #: () -> String
      def scheme = header("X_FORWARDED_PROTO").to_s[/\A\w+/] || @env["rack.url_scheme"].to_s

      # The token of the cookie, or a new one.
      #: () -> String
      def token = @token ||= cookie(TOKEN).to_s[/\A\h{32}\z/] || SecureRandom.hex(16)

      # The header that sets the cookie; nil: the browser has it.
      #: () -> String?
      def set_cookie
        return if @token.nil? || cookie(TOKEN) == @token

        "#{TOKEN}=#{@token}; Path=#{base.empty? ? "/" : base}; HttpOnly; SameSite=Strict" \
          "#{"; Secure" if scheme == "https"}"
      end

      #: (String) -> String?
      def cookie(name) = header("COOKIE").to_s.scan(/([^=;\s]+)=([^;]*)/).to_h[name]

      private

      def query = @env["QUERY_STRING"].to_s

      # The text of a form. Middleware of the app may have read it before, as Rails' does to look for _method. From Rack
      # 3 on, it cannot be read again, but Rack keeps the text.
      def body
        text = @env["rack.input"]&.read(BODY).to_s
        text.empty? ? @env["rack.request.form_vars"].to_s.byteslice(0, BODY) : text
      end

      # Those of a form count more.
      def pairs = @pairs ||= fields(query) + (get? ? [] : fields(body))

      def fields(text)
        found = URI.decode_www_form(text.dup.force_encoding(Encoding::UTF_8))
        found.select { |pair| pair.all?(&:valid_encoding?) }
      rescue ArgumentError
        []
      end
    end
  end
end
