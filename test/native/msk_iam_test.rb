# frozen_string_literal: true

require "test_helper"
require "json"
require "socket"
require "time"
require "tmpdir"
require "uri"
require "pelton"

module Pelton
  # The services of AWS are small servers of this test.
  class MskIamTest < Minitest::Test
    VECTORS = JSON.parse(File.read(File.expand_path("../vectors/msk_iam.json", __dir__)))["rows"]
    KEYS = { "AWS_ACCESS_KEY_ID" => "AKID", "AWS_SECRET_ACCESS_KEY" => "secret" }.freeze

    # Answers each request with [status, body] of the block, which gets "GET /path" and the headers.
    class Service
      attr_reader :requests

      def initialize(&answer)
        @server = TCPServer.new("127.0.0.1", 0)
        @requests = []
        @thread = Thread.new { serve(answer) }
      end

      def url = "http://127.0.0.1:#{@server.addr[1]}"

      def close
        @server.close
        @thread.join
      end

      private

      def serve(answer)
        loop do
          socket = @server.accept
          line = socket.gets.split.first(2).join(" ")
          headers = {}
          while (header = socket.gets.chomp) != ""
            name, value = header.split(": ", 2)
            headers[name.downcase] = value
          end
          body = socket.read(headers.fetch("content-length", 0).to_i)
          @requests << [line, headers, body]
          status, text = answer.call(line, headers)
          socket.write("HTTP/1.1 #{status} X\r\nContent-Length: #{text.bytesize}\r\nConnection: close\r\n\r\n#{text}")
          socket.close
        end
      rescue IOError, Errno::EBADF
        nil # closed
      end
    end

    def setup
      @home = Dir.mktmpdir
      @services = []
    end

    def teardown
      @services.each(&:close)
      FileUtils.rm_rf(@home)
    end

    # --- the signature, against recorded ones of AWS's own library (botocore) ---

    def test_signed_addresses_equal_those_of_aws
      VECTORS.each do |row|
        keys = { access_key_id: row["access_key_id"], secret_access_key: row["secret_access_key"],
                 session_token: row["session_token"] }
        signed = MskIam::Signer.address(keys, row["region"], Time.iso8601(row["time"]), 900)
        assert_equal parameters(row["url"]), parameters(signed)
      end
    end

    def test_a_token_is_the_address_and_the_name_of_the_library_in_base64
      answer = iam(KEYS).call("client", servers: "b-1.shop.abc.c2.kafka.eu-west-1.amazonaws.com:9098")
      address = decoded(answer)

      assert_match(%r{\Ahttps://kafka\.eu-west-1\.amazonaws\.com/\?Action=.*&User-Agent=pelton%2F\d}, address)
      assert_equal "AKID", answer[:principal]
      assert_in_delta 900, answer[:expires_at] - Time.now, 60
      refute_match(/[^\w-]/, answer[:token])
      assert_kind_of Array, Oauth.check(answer)
    end

    # --- the region ---

    def test_the_region_comes_from_the_argument_then_the_brokers_then_the_environment_then_the_profile
      servers = "boot-x.c1.kafka-serverless.us-east-2.amazonaws.com:9098"
      config("[default]\nregion = eu-north-1\n")

      assert_equal "us-west-1", region(iam({ **KEYS, "AWS_REGION" => "eu-west-3" }, region: "us-west-1"), servers)
      assert_equal "us-east-2", region(iam({ **KEYS, "AWS_REGION" => "eu-west-3" }), servers)
      assert_equal "cn-north-1", region(iam(KEYS), "b-2.a.b.kafka.cn-north-1.amazonaws.com.cn:9098")
      assert_equal "eu-west-3", region(iam({ **KEYS, "AWS_REGION" => "eu-west-3" }), "localhost:9092")
      assert_equal "eu-west-2", region(iam({ **KEYS, "AWS_DEFAULT_REGION" => "eu-west-2" }), nil)
      assert_equal "eu-north-1", region(iam(KEYS), nil)
    end

    def test_an_unknown_region_is_an_error_that_says_what_to_set
      error = assert_raises(ConfigError) { iam(KEYS).call("client") }
      assert_match(/\Aregion: is not known.*MskIam\.new\(region: "…"\)/, error.message)
    end

    # --- credentials, in the order of AWS's tools ---

    def test_given_credentials_come_first_and_a_named_profile_before_the_environment
      credentials("[shop]\naws_access_key_id = SHOP\naws_secret_access_key=x\n")

      given = { access_key_id: "GIVEN", secret_access_key: "x" }
      assert_equal "GIVEN", id(iam(KEYS, profile: "shop", credentials: -> { given }))
      assert_equal "SHOP", id(iam(KEYS, profile: "shop"))
      assert_equal "AKID", id(iam({ **KEYS, "AWS_PROFILE" => "shop" }))
      assert_equal "SHOP", id(iam({ "AWS_PROFILE" => "shop" }))
    end

    def test_profiles_are_read_as_aws_writes_them
      credentials("# mine\n[default]\naws_access_key_id=A1\naws_secret_access_key = s=e/c+ret \n" \
                  "aws_session_token = t\ns3 =\n  region = nested\n" \
                  "[ other ]\naws_access_key_id = A2\naws_secret_access_key = x\n")
      config("[profile other]\nregion = eu-south-1\n[default]\n")
      found = MskIam::Profile.new(nil, home).credentials

      assert_equal({ access_key_id: "A1", secret_access_key: "s=e/c+ret", session_token: "t" }, found)
      assert_nil MskIam::Profile.new(nil, home).region
      assert_equal ["A2", "eu-south-1"], [id(iam({}, profile: "other")), MskIam::Profile.new("other", home).region]
    end

    def test_a_profile_that_needs_another_login_is_refused_by_the_name_of_its_key
      config("[default]\nsso_session = corp\nregion = eu-west-1\n" \
             "[profile role]\nrole_arn = arn:x\nsource_profile = default\n")

      assert_match(/the profile default has sso_session, which Pelton does not follow/, refusal(iam({})))
      assert_match(/the profile role has role_arn/, refusal(iam({}, profile: "role")))
      assert_match(/\Aprofile = "none": there is no such profile/, refusal(iam({}, profile: "none")))
    end

    def test_a_credential_process_gives_keys_until_they_expire
      program = script("count=$(cat #{@home}/count 2>/dev/null || echo 0); echo $((count + 1)) > #{@home}/count",
                       %(echo '{"AccessKeyId": "P'$count'", "SecretAccessKey": "x", "Expiration": "'$1'"}'))
      config("[default]\ncredential_process = #{program} #{(Time.now + 200).utc.iso8601}\n")
      short = iam({})
      assert_equal %w[P0 P1], Array.new(2) { id(short) }, "less than 5 minutes are left each time"

      config("[default]\ncredential_process = #{program} #{(Time.now + 4000).utc.iso8601}\n")
      long = iam({})
      assert_equal %w[P2 P2], Array.new(2) { id(long) }
    end

    def test_a_credential_process_that_fails_is_named_without_its_output
      config("[default]\ncredential_process = #{script("echo hush-secret", "exit 3")}\n")
      assert_match(/credential_process of the profile default ended with code 3\z/, refusal(iam({})))

      config("[default]\ncredential_process = #{script("echo hush-secret")}\n")
      assert_match(/of the profile default: the answer \(12 bytes\) has no credentials/, refusal(iam({})))

      config("[default]\ncredential_process = #{@home}/missing\n")
      assert_match(/cannot be started: No such file/, refusal(iam({})))
    end

    def test_a_container_gets_its_credentials_with_the_token_of_its_file
      service = service { [200, document("C1")] }
      File.write("#{@home}/token", "Bearer hush\n")
      env = { "AWS_CONTAINER_CREDENTIALS_FULL_URI" => "#{service.url}/creds?x=1",
              "AWS_CONTAINER_AUTHORIZATION_TOKEN" => "older",
              "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" => "#{@home}/token" }

      assert_equal "C1", id(iam(env))
      requests = service.requests.map { |line, headers| [line, headers["authorization"]] }
      assert_equal [["GET /creds?x=1", "Bearer hush"]], requests
    end

    def test_credentials_of_a_container_are_not_fetched_in_plain_text_from_elsewhere
      at = ->(url) { refusal(iam({ "AWS_CONTAINER_CREDENTIALS_FULL_URI" => url })) }
      assert_match(/AWS_CONTAINER_CREDENTIALS_FULL_URI: 203\.0\.113\.7 is neither this machine's/, at.("http://203.0.113.7/"))
      assert_match(/evil\.example is neither/, at.("http://evil.example/creds"))
    end

    def test_a_machine_of_ec2_gives_the_credentials_of_its_role_to_those_with_a_session_token
      service = service do |line, headers|
        seconds = headers["x-aws-ec2-metadata-token-ttl-seconds"]
        next [200, "session"] if line == "PUT /latest/api/token" && seconds == "21600"
        next [401, ""] unless headers["x-aws-ec2-metadata-token"] == "session"

        line.end_with?("/security-credentials/") ? [200, "shop-role\n"] : [200, document("M1")]
      end
      env = { "AWS_EC2_METADATA_SERVICE_ENDPOINT" => service.url }

      assert_equal "M1", id(iam(env))
      assert_equal "GET /latest/meta-data/iam/security-credentials/shop-role", service.requests.last.first
      assert_match(/no AWS credentials were found in the environment, in the profile default, from a container/,
                   refusal(iam({ **env, "AWS_EC2_METADATA_DISABLED" => "true" })))
    end

    def test_a_machine_without_a_role_or_without_a_service_has_no_credentials
      service = service { |line, _| line.start_with?("PUT") ? [200, "session"] : [404, ""] }
      assert_match(/no AWS credentials/, refusal(iam({ "AWS_EC2_METADATA_SERVICE_ENDPOINT" => service.url })))

      closed = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
      env = { "AWS_EC2_METADATA_SERVICE_ENDPOINT" => "http://127.0.0.1:#{closed}" }
      assert_match(/no AWS credentials/, refusal(iam(env)))
    end

    def test_a_web_identity_is_exchanged_at_sts
      expiry = Time.at(Time.now.to_i + 3600)
      keys = { "AccessKeyId" => "W1", "SecretAccessKey" => "x", "SessionToken" => "t", "Expiration" => expiry.to_i }
      service = service do
        [200, JSON.generate("AssumeRoleWithWebIdentityResponse" =>
                              { "AssumeRoleWithWebIdentityResult" => { "Credentials" => keys } })]
      end
      File.write("#{@home}/jwt", "a.b.c\n")
      env = { "AWS_WEB_IDENTITY_TOKEN_FILE" => "#{@home}/jwt", "AWS_ROLE_ARN" => "arn:aws:iam::1:role/shop",
              "AWS_ENDPOINT_URL_STS" => service.url }

      assert_equal "W1", id(iam(env))
      form = URI.decode_www_form(service.requests.first.last).to_h
      assert_equal ["AssumeRoleWithWebIdentity", "arn:aws:iam::1:role/shop", "a.b.c"],
                   form.values_at("Action", "RoleArn", "WebIdentityToken")
    end

    def test_a_service_that_refuses_is_named_with_its_status
      service = service { [403, "hush-secret"] }
      error = assert_raises(IOError) { id(iam({ "AWS_CONTAINER_CREDENTIALS_FULL_URI" => "#{service.url}/creds" })) }
      assert_equal "127.0.0.1/creds answered with 403", error.message
    end

    # --- wrong values ---

    def test_missing_and_expired_values_are_named_with_their_source
      assert_match(/the environment: secret_access_key is missing/, refusal(iam({ "AWS_ACCESS_KEY_ID" => "A" })))
      assert_match(/credentials: expected a Hash, not NilClass/, refusal(iam({}, credentials: -> {})))
      past = -> { { access_key_id: "A", secret_access_key: "x", expires_at: Time.at(0) } }
      assert_match(/credentials: expires_at is 1970.* expected a Time to come/, refusal(iam({}, credentials: past)))
      assert_match(/\Aregion = 7: expected a String/, assert_raises(ConfigError) { MskIam.new(region: 7) }.message)
      error = assert_raises(ConfigError) { MskIam.new(credentials: {}) }
      assert_match(/\Acredentials: expected a callable/, error.message)
    end

    def test_secrets_are_not_inspected
      refute_match(/secret|AKID/, iam(KEYS).inspect)
    end

    private

    def home = { "HOME" => @home }

    def iam(env, **more) = MskIam.new(env: { **home, "AWS_EC2_METADATA_DISABLED" => metadata(env), **env }, **more)
    def metadata(env) = env.key?("AWS_EC2_METADATA_SERVICE_ENDPOINT") ? "" : "true"

    def id(iam) = iam.call("client", servers: "b.kafka.eu-west-1.amazonaws.com")[:principal]
    def refusal(iam) = assert_raises(ConfigError) { id(iam) }.message
    def region(iam, servers) = decoded(iam.call("client", servers: servers))[/kafka\.([\w-]+)\./, 1]
    def decoded(answer) = answer[:token].tr("-_", "+/").unpack1("m")
    def parameters(url) = url.split("?").then { |base, query| [base, query.split("&").sort] }

    def document(id)
      JSON.generate("AccessKeyId" => id, "SecretAccessKey" => "x", "Token" => "t", "Code" => "Success",
                    "Expiration" => (Time.now + 3600).utc.iso8601)
    end

    def credentials(text) = file("credentials", text)
    def config(text) = file("config", text)

    def file(name, text)
      FileUtils.mkdir_p("#{@home}/.aws")
      File.write("#{@home}/.aws/#{name}", text)
    end

    def script(*lines)
      path = "#{@home}/process"
      File.write(path, ["#!/bin/sh", *lines].join("\n"))
      File.chmod(0o755, path)
      path
    end

    def service(&answer) = Service.new(&answer).tap { |service| @services << service }
  end
end
