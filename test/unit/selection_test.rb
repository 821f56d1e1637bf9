# frozen_string_literal: true

require_relative "../test_helper"
require "pelton/cli/selection"

# Which groups and topics remain, by options and environment variables.
class SelectionTest < Minitest::Test
  ROUTES = { "billing" => %w[orders payments], "batch-1" => %w[orders], "batch-2" => ['\Alogs\.(a|b){1,2}'] }.freeze

  def names(env = {}, **options) = Pelton::CLI::Selection.new(options, env: env).names(ROUTES)
  def refused(...) = assert_raises(Pelton::ConfigError) { names(...) }.message

  def test_without_filters_nothing_is_narrowed
    assert_equal({}, names)
    assert_equal({}, names({ "PELTON_INCLUDE_GROUPS" => "" }, include_groups: []))
  end

  def test_includes_and_excludes_by_name_list_and_pattern
    assert_equal({ groups: %w[billing] }, names(include_groups: %w[billing]))
    assert_equal({ groups: %w[billing batch-2] }, names(include_groups: ["batch-2, billing"]))
    assert_equal({ groups: %w[batch-1 batch-2] }, names(include_groups: %w[batch-*]))
    assert_equal({ groups: %w[billing] }, names(exclude_groups: %w[batch-*]))
    assert_equal({ groups: %w[batch-2] }, names(include_groups: %w[batch-*], exclude_groups: %w[batch-1]))
    assert_equal({ topics: %w[orders] }, names(include_topics: %w[orders]))
    assert_equal({ groups: %w[billing], topics: %w[payments] },
                 names(include_groups: %w[billing], exclude_topics: ["orders", '\Alogs\.(a|b){1,2}']))
  end

  def test_star_stands_for_any_characters_and_nothing_else_is_special
    routes = { "a.b" => [], "aXb" => [], "a.b.c" => [] }
    assert_equal %w[a.b a.b.c], Pelton::CLI::Selection.new({ include_groups: %w[a.*] }, env: {}).names(routes)[:groups]
    assert_equal %w[a.b], Pelton::CLI::Selection.new({ include_groups: %w[a.b] }, env: {}).names(routes)[:groups]
  end

  def test_environment_variables_count_unless_the_option_is_given
    env = { "PELTON_EXCLUDE_GROUPS" => "batch-1,batch-2", "PELTON_INCLUDE_TOPICS" => "orders" }
    assert_equal({ groups: %w[billing], topics: %w[orders] }, names(env))
    assert_equal({ groups: %w[batch-1 batch-2], topics: %w[orders] }, names(env, exclude_groups: %w[billing]))
  end

  def test_unknown_names_are_refused_with_a_suggestion_and_their_source
    assert_equal "billng: unknown group in --include-groups, did you mean billing?",
                 refused(include_groups: %w[billng])
    assert_equal "ordrs: unknown topic in PELTON_EXCLUDE_TOPICS, did you mean orders?",
                 refused({ "PELTON_EXCLUDE_TOPICS" => "ordrs" })
    assert_includes refused(exclude_groups: %w[x*]), '--exclude-groups = "x*": matches no group, known are billing'
  end

  def test_option_without_a_name_is_an_error
    assert_equal '--include-groups = "": names no group', refused(include_groups: [""])
    assert_equal '--exclude-topics = " , ": names no topic', refused(exclude_topics: [" , "])
  end

  def test_nothing_left_is_an_error
    assert_equal '--exclude-groups = "b*": leaves no group to run', refused(exclude_groups: %w[b*])
    assert_includes refused(include_topics: %w[orders], exclude_topics: %w[orders]), "leaves no topic to run"
  end
end
