"""Where webhooks may lead: every spelling of an address inside is refused, unless it is allowed."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.configuration.network_addresses import (
    PUBLIC_ONLY,
    AddressPolicy,
    Endpoint,
    Tier,
    tier_of,
)
from meterlake.model.errors import Invalid

FORBIDDEN = [
    "127.0.0.1",
    "127.9.9.9",
    "127.0.0.1.",
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "169.254.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "100.100.100.200",
    "168.63.129.16",
    "localhost",
    "LOCALHOST.",
    "a.localhost",
    "metadata",
    "metadata.google.internal",
    "METADATA.google.internal.",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:169.254.169.254]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "[2606:2800:220:1:0:5efe:7f00:1]",
    "[2606:2800:220:1:200:5efe:169.254.169.254]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[ff02::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[fec0::1]",
    "[100::1]",
]
PRIVATE = [
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "192.168.1.1.",
    "100.64.0.1",
    "[fd00::1]",
    "[fc00::1]",
    "[::ffff:10.0.0.1]",
    "[64:ff9b::a00:1]",
    "[2002:a00:1::]",
    "intranet",
    "printer.local",
    "db.internal",
    "router.home.arpa",
]
# What resolvers understand as addresses, and what nobody should write.
UNREADABLE = [
    "https://2130706433/",
    "https://017700000001/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://10.1/",
    "https://012.0.0.1/",
    "https://2886729729/",
    "https://127.0.0.0x1/",
    "https://1.2.3.4.5/",
    "https://127。0。0。1/",
    "https://①②⑦.0.0.1/",
    "https://%31%32%37.0.0.1/",
    "https://hooks.example.com\\@127.0.0.1/",
    "https://user@hooks.example.com/",
    "https://user:password@hooks.example.com/",
    "https://hooks.example.com /",
    "https://hööks.example.com/",
    "https://a..example.com/",
    "https://-a.example.com/",
    "https://hooks.example.com:0/",
    "https://hooks.example.com:99999/",
    "https:///x",
    "https://",
    "ftp://hooks.example.com/",
    "file:///etc/passwd",
    "gopher://hooks.example.com/",
    "hooks.example.com",
    "https://[::1/",
    "https://hooks.example.com/\r\nHost: x",
]
PUBLIC = [
    "https://hooks.example.com",
    "https://hooks.example.com:8443/path?query=1#part",
    "https://HOOKS.example.com./",
    "https://xn--hks-tna.example.com/",
    "https://93.184.216.34/",
    "https://[2606:2800:220:1::1]/",
    "https://[64:ff9b::808:808]/",
]
EVERYTHING = AddressPolicy(private=True, loopback=True)


def test_there_are_more_than_40_spellings_of_what_is_forbidden():
    assert len({*FORBIDDEN}) > 40


@pytest.mark.parametrize("host", FORBIDDEN)
def test_a_forbidden_address_is_refused_also_where_private_networks_are_allowed(host):
    with pytest.raises(Invalid, match="url"):
        AddressPolicy(private=True).check_url(f"https://{host}/")


@pytest.mark.parametrize("host", PRIVATE)
def test_a_private_address_is_one_switch(host):
    with pytest.raises(Invalid, match="webhook_private"):
        PUBLIC_ONLY.check_url(f"https://{host}/")
    assert AddressPolicy(private=True).check_url(f"https://{host}/")


@pytest.mark.parametrize("url", UNREADABLE)
def test_what_nobody_should_write_is_refused_whatever_the_settings_say(url):
    with pytest.raises(Invalid, match="url") as caught:
        EVERYTHING.check_url(url)
    assert "password" not in str(caught.value).replace("user and password", "")


@pytest.mark.parametrize("url", PUBLIC)
def test_a_public_address_is_accepted(url):
    endpoint = PUBLIC_ONLY.check_url(url)

    PUBLIC_ONLY.check_addresses(endpoint, [ip_address("93.184.216.34")])


@pytest.mark.parametrize("url", ["http://hooks.example.com/", "http://93.184.216.34/"])
def test_plain_http_is_for_hosts_that_the_settings_name(url):
    with pytest.raises(Invalid, match="https"):
        EVERYTHING.check_url(url)
    assert AddressPolicy.of([Endpoint.of(url).url.split("/")[2]]).check_url(url)


@pytest.mark.parametrize("port", [1, 22, 25, 80, 1023])
def test_ports_of_other_services_are_refused(port):
    with pytest.raises(Invalid, match="port must be 443"):
        PUBLIC_ONLY.check_url(f"https://hooks.example.com:{port}/")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/x",
        "https://localhost/",
        "http://a.localhost./",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://127.9.9.9/",
    ],
)
def test_this_machine_is_a_switch_of_its_own(url):
    assert AddressPolicy(loopback=True).check_url(url)
    with pytest.raises(Invalid, match="webhook_loopback"):
        AddressPolicy(private=True).check_url(url)


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000/"),
        ("127.0.0.0/8", "http://127.3.4.5/"),
        ("169.254.169.254", "http://169.254.169.254/"),
        ("::1", "http://[::1]:80/"),
        ("[::1]", "http://[::1]:80/"),
        ("10.1.0.0/16", "http://10.1.2.3/"),
        ("10.1.0.0/16", "http://[::ffff:10.1.2.3]/"),
        ("receiver", "http://receiver:8000/"),
        ("Receiver.Internal.", "http://receiver.internal/"),
        ("localhost", "http://localhost/"),
    ],
)
def test_what_the_settings_name_is_allowed_and_its_neighbours_are_not(allowed, url):
    policy = AddressPolicy.of([allowed])

    assert policy.check_url(url)
    with pytest.raises(Invalid):
        policy.check_url("https://169.254.169.253/")
    with pytest.raises(Invalid):
        policy.check_url("https://other.internal/")


@pytest.mark.parametrize("text", ["", "a b", "10.0.0.0/33", "127.1", "https://a.example", "-", "*"])
def test_settings_that_name_nothing_are_refused(text):
    with pytest.raises(Invalid, match="webhook_allow"):
        AddressPolicy.of([text])


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::1"], ["fd00::1"]]
)
def test_a_name_is_refused_if_any_of_its_addresses_is_inside(addresses):
    endpoint = PUBLIC_ONLY.check_url("https://hooks.example.com/")

    with pytest.raises(Invalid, match=r"hooks\.example\.com"):
        PUBLIC_ONLY.check_addresses(endpoint, map(ip_address, addresses))
    named = AddressPolicy.of(["hooks.example.com"])
    named.check_addresses(endpoint, map(ip_address, addresses))


@given(st.ip_addresses(v=4))
def test_an_ipv6_address_is_as_far_inside_as_the_ipv4_address_that_it_reaches(address):
    number = int(address)
    ways = [
        f"::ffff:{address}",
        f"64:ff9b::{address}",
        f"2002:{number >> 16:x}:{number & 0xFFFF:x}::1",
        f"2606:2800::5efe:{address}",
    ]

    assert {tier_of(ip_address(each)) for each in ways} == {tier_of(address)}


@given(st.ip_addresses())
def test_what_python_calls_not_global_is_never_public(address):
    if not address.is_global or address.is_multicast:
        inner = getattr(address, "teredo", None) or getattr(address, "sixtofour", None)
        nat64 = address.version == 6 and address in ip_network("64:ff9b::/96")
        assert tier_of(address) is not Tier.PUBLIC or inner or nat64
