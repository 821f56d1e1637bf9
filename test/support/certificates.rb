# frozen_string_literal: true

require "openssl"

# Certificates made here, and lists of revoked ones.
module Certificates
  module_function

  # A key with a certificate for it; by itself, or signed by another's. hosts: "IP:127.0.0.1". from, to: seconds from
  # now, when it begins and ends to be valid.
  def certificate(name, key: OpenSSL::PKey::RSA.new(2048), issuer: nil, hosts: nil, from: -3600, to: 86_400)
    cert = OpenSSL::X509::Certificate.new
    cert.version = 2
    cert.serial = rand(1 << 60)
    cert.subject = OpenSSL::X509::Name.parse("/CN=#{name}")
    cert.issuer = issuer ? issuer[:cert].subject : cert.subject
    cert.public_key = key.public_key
    cert.not_before = Time.now + from
    cert.not_after = Time.now + to
    extensions = OpenSSL::X509::ExtensionFactory.new
    cert.add_extension(extensions.create_extension("basicConstraints", issuer ? "CA:FALSE" : "CA:TRUE", true))
    cert.add_extension(extensions.create_extension("subjectAltName", hosts)) if hosts
    cert.sign(issuer ? issuer[:key] : key, OpenSSL::Digest.new("SHA256"))
    { key: key, cert: cert }
  end

  # The list of the certificates that an authority revoked.
  def revocations(authority, *certificates)
    list = OpenSSL::X509::CRL.new
    list.version = 1
    list.issuer = authority[:cert].subject
    list.last_update = Time.now - 3600
    list.next_update = Time.now + 86_400
    certificates.each do |certificate|
      revoked = OpenSSL::X509::Revoked.new
      revoked.serial = certificate[:cert].serial
      revoked.time = Time.now - 60
      list.add_revoked(revoked)
    end
    list.sign(authority[:key], OpenSSL::Digest.new("SHA256"))
  end
end
