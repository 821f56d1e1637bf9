# frozen_string_literal: true

require "erb"

module Pelton
  class Web
    # Text that is HTML already. Templates escape everything else.
    class Html < String
      # The value as HTML: escaped, unless it is Html. Bytes that are no UTF-8 become U+FFFD.
      #   Html.of("<b>") # => "&lt;b&gt;"
      #: (untyped) -> Html
      def self.of(value)
        return value if value.is_a?(Html)

        text = value.to_s
        text = text.dup.force_encoding(Encoding::UTF_8) unless text.encoding == Encoding::UTF_8
        new(ERB::Util.html_escape(text.scrub("\u{FFFD}")))
      end

      # An element. Attributes with nil or false are left out, true has no value.
      #   Html.tag(:a, "orders", href: "/topic?name=orders")
      #: (Symbol, ?untyped, **untyped) -> Html
      def self.tag(name, content = nil, **attributes)
        given = attributes.select { |_, value| value }.map do |key, value|
          value == true ? " #{key}" : " #{key}=\"#{of(value)}\""
        end
        new("<#{name}#{given.join}>#{of(content)}</#{name}>")
      end

      # These values, one after the other.
      #: (Array[untyped], ?String) -> Html
      def self.join(values, between = "") = new(values.map { |value| of(value) }.join(of(between)))
    end

    # Turns the files of views/ into methods. `<%= value %>` escapes the value.
    module Views
      FOLDER = File.expand_path("views", __dir__)

      # ERB's compiler, with escaping.
      class Compilation < ERB::Compiler
        def add_insert_cmd(out, content) = out.push("_erbout << ::Pelton::Web::Html.of((#{content}))")
      end

      # The same for a whole template.
      class Template < ERB
        def make_compiler(trim_mode) = Compilation.new(trim_mode)
      end
      private_constant :Compilation, :Template

      # On a phone, each row of a table is a card. So each cell says in data-label of which column it is, as the head
      # names it. A table has one row that the view repeats.
      #: (String) -> String
      def self.with_labels(view)
        view.gsub(%r{<table.*?</table>}m) do |table|
          head, body = table.split("</thead>")
          labels = head.scan(%r{<th scope="col"[^>]*>(.*?)</th>}).flatten
          body = body.gsub(/<td\b|<th scope="row"/) { |cell| "#{cell} data-label=\"#{labels.shift}\"" }
          raise ArgumentError, "cells and heads differ: #{table}" if labels.any? || body.include?('data-label=""')

          "#{head}</thead>#{body}"
        end
      end

      # Defines `view_overview` for views/overview.erb, and so on.
      Dir.glob("*.erb", base: FOLDER).sort.each do |file|
        path = File.join(FOLDER, file)
        template = Template.new(with_labels(File.read(path, encoding: Encoding::UTF_8)), trim_mode: "-")
        # Evaluated here, so that views see the constants of Web. ERB's first line is a comment for the parser.
        text = "# coding: UTF-8\ndef view_#{File.basename(file, ".erb")}\n#{template.src}\nend"
        class_eval(text, path, -1)
      end
    end
  end
end
