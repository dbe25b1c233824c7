//! Requests about the cluster, and those of the setup.

use bytes::Bytes;
use kafka_protocol::messages as wire;
use kafka_protocol::protocol::StrBytes;
use nearside::wire::api::{self, TopicRef};

use super::{Case, id_of, maybe, millis, several, time, topic};
use crate::script::Script;

fn text(text: Option<&StrBytes>) -> Option<&str> {
    text.map(StrBytes::as_str)
}

pub(super) fn metadata(script: &mut Script<'_>) -> Case {
    let by_id = script.flag();
    let request = api::metadata::Request {
        topics: maybe(script, |script| {
            several(script, |script| {
                let topic = topic(script);
                if by_id {
                    TopicRef::Id(id_of(&topic))
                } else {
                    TopicRef::Name(topic)
                }
            })
        }),
        allow_auto_creation: script.flag(),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::MetadataRequest| {
        assert_eq!(read.allow_auto_topic_creation, meant.allow_auto_creation);
        assert!(!read.include_topic_authorized_operations);
        let topics = read.topics.map(|topics| {
            let topics = topics.into_iter().map(|it| {
                let name = it.name.map(|name| name.to_string());
                (name, it.topic_id)
            });
            topics.collect::<Vec<_>>()
        });
        let expected = meant.topics.as_ref().map(|topics| {
            let topics = topics.iter().map(|topic| match topic {
                TopicRef::Name(name) => (Some(name.as_str().to_owned()), uuid::Uuid::nil()),
                TopicRef::Id(id) => (None, id.0),
            });
            topics.collect::<Vec<_>>()
        });
        assert_eq!(topics, expected, "v{version}");
    })
}

pub(super) fn api_versions(script: &mut Script<'_>) -> Case {
    let request = api::api_versions::Request {
        software_name: script.text(),
        software_version: script.text(),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::ApiVersionsRequest| {
        let told = |text: &str| {
            if version >= 3 {
                text.to_owned()
            } else {
                String::new()
            }
        };
        assert_eq!(
            read.client_software_name.as_str(),
            told(&meant.software_name)
        );
        assert_eq!(
            read.client_software_version.as_str(),
            told(&meant.software_version)
        );
    })
}

pub(super) fn create_topics(script: &mut Script<'_>) -> Case {
    let request = api::create_topics::Request {
        topics: several(script, |script| api::create_topics::NewTopic {
            name: topic(script),
            partitions: maybe(script, Script::i32),
            replication: maybe(script, Script::i16),
            configs: several(script, |script| (script.text(), script.text())),
        }),
        timeout: time(script),
        validate_only: script.flag(),
    };
    let meant = request.clone();
    Case::new(request, move |version, read: wire::CreateTopicsRequest| {
        assert_eq!(read.timeout_ms, millis(meant.timeout));
        assert_eq!(read.validate_only, meant.validate_only);
        let topics = read.topics.iter().map(|topic| {
            assert!(topic.assignments.is_empty());
            let configs = topic.configs.iter().map(|config| {
                let value = config.value.as_ref().map(StrBytes::to_string);
                (config.name.to_string(), value)
            });
            let numbers = (topic.num_partitions, topic.replication_factor);
            (topic.name.to_string(), numbers, configs.collect::<Vec<_>>())
        });
        let expected = meant.topics.iter().map(|topic| {
            let configs = topic.configs.iter().cloned();
            let configs = configs.map(|(name, value)| (name, Some(value)));
            let numbers = (
                topic.partitions.unwrap_or(-1),
                topic.replication.unwrap_or(-1),
            );
            (topic.name.as_str().to_owned(), numbers, configs.collect())
        });
        assert!(topics.eq(expected), "v{version}: {read:?}");
    })
}

pub(super) fn describe_configs(script: &mut Script<'_>) -> Case {
    let request = api::describe_configs::Request {
        resources: several(script, |script| api::describe_configs::Resource {
            kind: if script.flag() {
                api::describe_configs::ResourceKind::Broker
            } else {
                api::describe_configs::ResourceKind::Topic
            },
            name: script.text(),
            keys: maybe(script, |script| several(script, Script::text)),
        }),
    };
    let meant = request.clone();
    Case::new(
        request,
        move |version, read: wire::DescribeConfigsRequest| {
            assert!(!read.include_synonyms && !read.include_documentation);
            let resources = read.resources.iter().map(|it| {
                let keys = it.configuration_keys.as_ref().map(|keys| {
                    let keys = keys.iter().map(StrBytes::to_string);
                    keys.collect::<Vec<_>>()
                });
                (it.resource_type, it.resource_name.to_string(), keys)
            });
            let expected = meant.resources.iter().map(|it| {
                let kind = match it.kind {
                    api::describe_configs::ResourceKind::Topic => 2,
                    api::describe_configs::ResourceKind::Broker => 4,
                };
                (kind, it.name.clone(), it.keys.clone())
            });
            assert!(resources.eq(expected), "v{version}: {read:?}");
        },
    )
}

pub(super) fn init_producer_id(script: &mut Script<'_>) -> Case {
    let request = api::init_producer_id::Request {
        transactional_id: maybe(script, Script::text),
        transaction_timeout: time(script),
        resume: maybe(script, |script| api::init_producer_id::Producer {
            id: script.i64(),
            epoch: script.i16(),
        }),
    };
    let meant = request.clone();
    Case::new(request, move |_, read: wire::InitProducerIdRequest| {
        let id = read.transactional_id.as_ref().map(|id| id.as_str());
        assert_eq!(id, meant.transactional_id.as_deref());
        assert_eq!(
            read.transaction_timeout_ms,
            millis(meant.transaction_timeout)
        );
        let resumed = meant.resume.map_or((-1, -1), |it| (it.id, it.epoch));
        assert_eq!((read.producer_id.0, read.producer_epoch), resumed);
    })
}

pub(super) fn sasl_handshake(script: &mut Script<'_>) -> Case {
    let mechanism = script.text();
    let request = api::sasl_handshake::Request {
        mechanism: mechanism.clone(),
    };
    Case::new(request, move |_, read: wire::SaslHandshakeRequest| {
        assert_eq!(text(Some(&read.mechanism)), Some(mechanism.as_str()));
    })
}

pub(super) fn sasl_authenticate(script: &mut Script<'_>) -> Case {
    let token = Bytes::copy_from_slice(script.rest());
    let request = api::sasl_authenticate::Request {
        token: token.clone(),
    };
    Case::new(request, move |_, read: wire::SaslAuthenticateRequest| {
        assert_eq!(read.auth_bytes, token);
    })
}
