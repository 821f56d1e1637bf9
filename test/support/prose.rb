# frozen_string_literal: true

# Measures the prose of a Markdown page: words per sentence, the longest sentence, retired phrases, and words in all.
# Code blocks, tables and headings are no sentences.
class Prose
  AVERAGE = 18 # words per sentence
  LONGEST = 40 # words in one sentence
  GUIDE = 1_500 # words on a guide's page, tables included

  # Phrases that a reader has to decode: old words, software as a person, sentences without a subject.
  RETIRED = [
    /\banew\b/i, /\bin vain\b/i, /\bas far as\b/i, /\bfor good\b/i, /\bat all times\b/i,
    /\bso (?:many|long|often)(?! as| that)\b/i, /\b(?:of|than) (?:yours|ours|its own accord)\b/i,
    /\b(?:no|some|any)body\b/i, /\bwhoever\b/i, /\bthere is one of\b/i, /\b(?:he|she) who\b/i, /\ball who\b/i,
    /(?:^|[.;:] )Who (?!am|are|can|does|should|will)\w+/, /\b(?:is|are|was|were|be) told\b/i,
    /\btells? (?:of|once|the rest)\b/i, /\bgets? out of the way\b/i, /\bwhat there is not\b/i,
    /\bwhat (?:it|is|was) (?:found|raised|returned|there|was)\b/i, /\bbegins? with what\b/i, /\b(?:a|the) word of\b/i,
    /\bwas made again\b/i, /\bbe it\b/i, /\bis waited for\b/i,
    /, for (?:it|they|he|this|that) (?:is|are|was|has|have|leaves?|does)\b/i
  ].freeze

  # text: a Markdown page
  def initialize(text)
    @text = text.gsub(/^```.*?^```/m, "")
  end

  # The problems of the page, one line each.
  # limit: words on the page; nil: any number
  def problems(limit: nil)
    found = sentences.flat_map { |sentence| problems_of(sentence) }
    found << format("%.1f words per sentence on average, more than %d", average, AVERAGE) if average > AVERAGE
    found << "#{words(@text)} words on the page, more than #{limit}" if limit && words(@text) > limit
    found
  end

  def average
    return 0.0 if sentences.empty?

    sentences.sum { |sentence| words(sentence) }.fdiv(sentences.size)
  end

  private

  def problems_of(sentence)
    found = RETIRED.filter_map { |phrase| sentence[phrase] }.map { |phrase| "#{phrase.strip.inspect} in: #{sentence}" }
    found << "#{words(sentence)} words, more than #{LONGEST}: #{sentence}" if words(sentence) > LONGEST
    found
  end

  # Items of lists and paragraphs end a sentence as a period does; a code span is one word.
  def sentences
    @sentences ||= begin
      plain = @text.gsub(/^\s*\|.*$/, "").gsub(/^#+ .*$/, "").gsub(/`[^`]*`/, "x").gsub(/<[^>]+>/, "")
      plain = plain.gsub(/\[([^\]]*)\]\([^)]*\)/, '\1')
      parts = plain.split(/(?<=[.!?])\s+|\n{2,}|^\s*(?:[-*]|\d+\.)\s/m).map { |part| part.gsub(/\s+/, " ").strip }
      parts.select { |part| words(part) >= 3 }
    end
  end

  def words(text) = text.scan(/[\w'’-]+/).size
end
