# frozen_string_literal: true

require_relative "../page"

module Pelton
  class Web
    module Pages
      # What is not there, or not known because Kafka does not answer.
      class Refusal < Page
        attr_reader :status, :text

        #: (Web, Request, Integer, String) -> void
        def initialize(web, request, status, text)
          super(web, request)
          @status = status
          @text = text
        end

        private

        def title = status == 404 ? "Not found" : "Not known"
        def live? = false
        def content = Html.new(view_refusal)
        def needs_cluster? = false
        def section = nil
      end
    end
  end
end
